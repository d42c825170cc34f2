package fsm

import "github.com/axd-project/axd/job"

// MaxPage bounds the records that one page of a list holds; ScanLimit the rows
// that one page may look at, filters included.
const (
	MaxPage   = 1000
	ScanLimit = 10_000
)

// TaskFilter selects tasks. Empty fields don't filter. A list walks the
// narrowest index that the filter allows.
type TaskFilter struct {
	Namespace string
	State     job.Shown
	Job       string
	Worker    string // active attempts of this worker
	App       string
	Owner     string
	DueFrom   int64 // Unix ms, inclusive
	DueTo     int64 // Unix ms, exclusive
}

// TaskPage is a page of a list; an empty Next means the end. A page may be
// short, even empty, while Next is set: the scan limit was reached.
type TaskPage struct {
	Tasks []Task
	Next  string
}

// GetTask reads one task.
func GetTask(r Reader, ref TaskRef) (Task, bool) { panic("to be written") }

// GetBody reads what never changes of a task.
func GetBody(r Reader, ref TaskRef) (Body, bool) { panic("to be written") }

// ListTasks reads a page of at most limit tasks from cursor; now is the
// cluster's clock, which splits pending. A cursor that isn't one is an error.
func ListTasks(r Reader, f TaskFilter, cursor string, limit int, now int64) (TaskPage, error) {
	panic("to be written")
}

// ListAttempts reads the kept attempts of a task, oldest first.
func ListAttempts(r Reader, ref TaskRef) []Attempt { panic("to be written") }

// GetJob reads a job in its newest version.
func GetJob(r Reader, namespace, name string) (Job, bool) { panic("to be written") }

// ListJobs reads a page of jobs by name.
func ListJobs(r Reader, namespace, cursor string, limit int) (jobs []Job, next string, err error) {
	panic("to be written")
}

// GetWorker reads one worker.
func GetWorker(r Reader, name string) (Worker, bool) { panic("to be written") }

// ListWorkers reads a page of workers by name.
func ListWorkers(r Reader, cursor string, limit int) (workers []Worker, next string, err error) {
	panic("to be written")
}

// ListActive reads up to limit attempts that state holds for a worker; an empty
// worker means all, from after (exclusive) on. The leader recovers with it.
func ListActive(r Reader, worker string, limit int) []ActiveAttempt { panic("to be written") }

// DueKey is a position in the due index of one priority.
type DueKey struct {
	Due       int64
	ID        job.ID
	Namespace string
}

// Compare orders two positions: -1, 0 or +1.
func (k DueKey) Compare(o DueKey) int { panic("to be written") }

// DueRow is one row of the due index.
type DueRow struct {
	DueKey
	Retry bool
}

// ScanDue reads up to limit rows of one priority with from <= row and
// row.Due < before, in order. It starts at the low mark where from is earlier.
func ScanDue(r Reader, p job.Priority, from DueKey, before int64, limit int) []DueRow {
	panic("to be written")
}

// Counts are the numbers of tasks by stored state.
type Counts map[job.State]int64

// CountTasks returns a namespace's counters; an empty name sums all namespaces.
func CountTasks(r Reader, namespace string) Counts { panic("to be written") }

// CountJobTasks returns a job's counters.
func CountJobTasks(r Reader, namespace, name string) Counts { panic("to be written") }

// Info is what the cluster's state says of itself.
type Info struct {
	ClusterID    string
	FeatureLevel uint32
	Format       uint32 // of rows and keys
	Applied      uint64 // log index of the last applied entry
	Clock        int64  // high-water mark of the cluster's clock, Unix ms
	RestoreEpoch uint32
	Chain        uint64 // hash chain over the writes of each entry
}

// ReadInfo reads the meta table.
func ReadInfo(r Reader) Info { panic("to be written") }

// StateHash hashes the whole state, for tests and axd check.
func StateHash(r Reader) uint64 { panic("to be written") }

// Check tells every broken invariant of a state, at most limit of them.
func Check(r Reader, limit int) []string { panic("to be written") }

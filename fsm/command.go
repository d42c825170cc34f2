package fsm

import "github.com/axd-project/axd/job"

// Code is a command's type on the wire and in the log: append, never reuse.
type Code uint8

// The command codes.
const (
	CodeConfigure      Code = 1
	CodePutJob         Code = 2
	CodeDeleteJob      Code = 3
	CodeSubmit         Code = 4
	CodeAssign         Code = 5
	CodeStarted        Code = 6
	CodeFinished       Code = 7
	CodeGiveBack       Code = 8
	CodeLoseAttempts   Code = 9
	CodeCancel         Code = 10
	CodeReschedule     Code = 11
	CodeRegisterWorker Code = 12
	CodeWorkerState    Code = 13
	CodeForgetWorker   Code = 14
	CodeExpire         Code = 15
	CodeChecksum       Code = 16
	CodeDrainWorker    Code = 17
	CodePutAlert       Code = 20
	CodeEndAlert       Code = 21
	CodeSubmitNow      Code = 24
	CodeTimeOut        Code = 25
	CodeDeadLetters    Code = 26
	CodeContinueDead   Code = 27
	CodeCallbackTried  Code = 40
	CodeRedeliver      Code = 41

	CodePutSchedule       Code = 50
	CodeDeleteSchedule    Code = 51
	CodePauseSchedule     Code = 52
	CodeTriggerSchedule   Code = 53
	CodeFireSchedules     Code = 54
	CodeContinueSchedules Code = 55

	CodePutCalendar    Code = 100
	CodeDeleteCalendar Code = 101
)

// Command is one verb with its arguments. Commands are data: each is
// encoded with EncodeCommand, travels in an Entry and is applied by Machine.Apply.
type Command interface{ Code() Code }

// TaskRef names a task.
type TaskRef struct {
	Namespace string `msgpack:"n"`
	ID        job.ID `msgpack:"i"`
}

// Configure sets what the whole cluster shares. The first leader of a new
// cluster proposes it; later it raises the feature level, or takes what an
// operator sets. Empty fields stay.
type Configure struct {
	ClusterID    string `msgpack:"c,omitempty"` // set once
	FeatureLevel uint32 `msgpack:"f,omitempty"` // never lowered

	Settings *job.Settings `msgpack:"s,omitempty"` // of these the fields that are set
}

// PutJob creates a job or gives it a new version; an equal spec changes nothing
// but, perhaps, the file set.
type PutJob struct {
	Namespace string   `msgpack:"n"`
	Name      string   `msgpack:"N"`
	Spec      job.Spec `msgpack:"s"`
	Actor     string   `msgpack:"a,omitempty"`
	FileSet   string   `msgpack:"f,omitempty"` // empty: stays as it is
}

// DeleteJob removes a job that has no task left to run.
type DeleteJob struct {
	Namespace string `msgpack:"n"`
	Name      string `msgpack:"N"`
	Actor     string `msgpack:"a,omitempty"`
}

// Submit creates tasks. Each stands alone: it has its own result.
type Submit struct {
	Namespace string         `msgpack:"n"`
	Tasks     []job.TaskSpec `msgpack:"t"`
}

// SubmitNow is a Submit whose immediate tasks the leader has placed at workers with
// free slots, so that one entry creates and assigns them. A task stays pending
// where the term, its worker's life or state have moved on since, or where it is
// not due; of a deduplicated one nothing comes.
type SubmitNow struct {
	Term    uint64       `msgpack:"t"`
	Workers []WorkerLife `msgpack:"w"`
	To      []int        `msgpack:"p"` // by task: its worker's index in Workers plus one; 0 or none: it waits
	Submit  []byte       `msgpack:"s"` // EncodeCommand's form of the Submit
}

// WorkerLife names one life of a worker.
type WorkerLife struct {
	Name string `msgpack:"n"`
	Boot string `msgpack:"b"`
}

// Assign hands pending tasks to workers. The leader decides it, so it carries
// the leader's term and the version of the task that the leader saw.
type Assign struct {
	Term  uint64       `msgpack:"t"`
	Items []AssignItem `msgpack:"i"`
}

// AssignItem is one task of an Assign. Its token is derived in apply from the
// restore epoch, the log index and the item's place in the entry.
type AssignItem struct {
	Ref     TaskRef `msgpack:"r"`
	Version uint64  `msgpack:"v"`
	Worker  string  `msgpack:"w"`
	Boot    string  `msgpack:"b"` // the worker's boot that the leader has a session with
}

// AttemptRef names the attempt that a report speaks of; a report whose token is
// not the task's current one is refused.
type AttemptRef struct {
	Ref   TaskRef   `msgpack:"r"`
	Token job.Token `msgpack:"k"`
}

// Started reports that an attempt runs. At is a duration-corrected cluster time.
type Started struct {
	AttemptRef `msgpack:",inline"`
	At         int64 `msgpack:"a"` // Unix milliseconds by the cluster's clock
}

// Finished reports how an attempt ended.
type Finished struct {
	AttemptRef `msgpack:",inline"`
	Result     AttemptResult `msgpack:"R"`
}

// AttemptResult is what a worker knows of an attempt that ended.
type AttemptResult struct {
	Outcome   job.Outcome `msgpack:"o"`           // success, failed, timeout, cancelled, or lost (killed as residue of an earlier life)
	ExitCode  *int        `msgpack:"c,omitempty"` // exit code, or HTTP status
	Error     string      `msgpack:"e,omitempty"` // at most MaxErrorBytes
	Started   int64       `msgpack:"s,omitempty"` // Unix ms by the cluster's clock; 0: never started
	Ended     int64       `msgpack:"d,omitempty"` // Unix ms by the cluster's clock
	Stdout    []byte      `msgpack:"O,omitempty"` // last bytes, at most MaxTailBytes
	Stderr    []byte      `msgpack:"E,omitempty"` // last bytes, at most MaxTailBytes
	Output    []byte      `msgpack:"u,omitempty"` // what the job returned, at most MaxOutputBytes
	LateStart int64       `msgpack:"l,omitempty"` // ms between due and start as the worker measured it
	Class     string      `msgpack:"C,omitempty"` // of the error; see job.NonRetryable
	RetryMS   int64       `msgpack:"r,omitempty"` // ms to the next attempt that the worker asks for; 0: by the rule; below 0: none
}

// The limits of what an attempt leaves behind.
const (
	MaxErrorBytes  = 1 << 10
	MaxTailBytes   = 4 << 10
	MaxOutputBytes = 16 << 10
	MaxAttempts    = 20 // attempt records kept of one task
)

// GiveBack returns attempts that the worker did not start, or had to end when it
// stopped: no retry is spent.
type GiveBack struct {
	Attempts []AttemptRef `msgpack:"a"`
	Reason   string       `msgpack:"y,omitempty"`
}

// LoseAttempts declares attempts of a worker lost. The leader decides it, after
// the lease has ended.
type LoseAttempts struct {
	Term     uint64       `msgpack:"t"`
	Attempts []AttemptRef `msgpack:"a"`
	Outcome  job.Outcome  `msgpack:"o"` // lost, or timeout by the leader's backstop
	// Unstarted are lost attempts that were armed for a time after the lease's end,
	// so that they certainly never started: they are undone.
	Unstarted []AttemptRef `msgpack:"u,omitempty"`
	Reason    string       `msgpack:"y,omitempty"`
}

// TimeOut ends pending tasks whose deadline has passed. The leader decides it.
type TimeOut struct {
	Term  uint64        `msgpack:"t"`
	Tasks []TaskVersion `msgpack:"i"`
}

// TaskVersion names a task as the leader saw it.
type TaskVersion struct {
	Ref     TaskRef `msgpack:"r"`
	Version uint64  `msgpack:"v"`
}

// Cancel ends a pending task at once; of an active one it records the wish,
// and the attempt's end decides.
type Cancel struct {
	Ref    TaskRef `msgpack:"r"`
	Reason string  `msgpack:"y,omitempty"`
	Actor  string  `msgpack:"a,omitempty"`
}

// Reschedule moves a pending task to another time or priority. Of an armed one it
// records the wish, which holds once the worker has given the attempt back.
type Reschedule struct {
	Ref      TaskRef      `msgpack:"r"`
	Due      int64        `msgpack:"d,omitempty"` // Unix ms; 0: keep, unless Now
	Delay    job.Duration `msgpack:"l,omitempty"` // from the entry's time; excludes Due
	Now      bool         `msgpack:"w,omitempty"` // due at the entry's time
	Priority job.Priority `msgpack:"p,omitempty"`
}

// RegisterWorker records a worker's boot when its session begins.
type RegisterWorker struct {
	Term    uint64            `msgpack:"t"`
	Name    string            `msgpack:"n"`
	Boot    string            `msgpack:"b"`
	Address string            `msgpack:"a"`
	Slots   int               `msgpack:"s"`
	Labels  map[string]string `msgpack:"l,omitempty"`
	Version string            `msgpack:"v,omitempty"`
	LeaseMS int64             `msgpack:"e,omitempty"` // the lease's time to live that the leader grants

	Priorities []job.Priority `msgpack:"p,omitempty"` // that it takes; none: all
}

// WorkerState records that the leader holds a worker for alive or lost.
type WorkerState struct {
	Term  uint64 `msgpack:"t"`
	Name  string `msgpack:"n"`
	Boot  string `msgpack:"b,omitempty"` // the life that is meant; another one is left alone
	Alive bool   `msgpack:"a"`
}

// DrainWorker stops (or with Resume allows again) new work for a worker.
type DrainWorker struct {
	Name   string `msgpack:"n"`
	Resume bool   `msgpack:"r,omitempty"`
	Actor  string `msgpack:"a,omitempty"`
	// Deadline is when what still runs is given back, from now; 0: it may end.
	Deadline job.Duration `msgpack:"d,omitempty"`
}

// ForgetWorker deletes a lost worker that holds no attempt.
type ForgetWorker struct {
	Name string `msgpack:"n"`
}

// Expire deletes what outlived its retention, at most maxFanOut rows, and moves
// the due index's low mark. The result tells whether more is left.
type Expire struct {
	EndedBefore int64 `msgpack:"e"` // ended tasks, Unix ms; alerts have AlertRetention
}

// DeadLetters replays or discards dead letters: the named ones, or without names
// those that match. What goes beyond one command's rows goes on as a DeadAct.
type DeadLetters struct {
	Namespace string     `msgpack:"n"`
	Replay    bool       `msgpack:"r,omitempty"` // else discard
	IDs       []job.ID   `msgpack:"i,omitempty"` // at most MaxDeadIDs
	Before    int64      `msgpack:"b,omitempty"` // of those named, none that ended at or after this time; 0: any
	Filter    DeadFilter `msgpack:"f"`
	Matched   int64      `msgpack:"m,omitempty"` // as who asks counted those that match
	AtLeast   bool       `msgpack:"l,omitempty"` // there are more
}

// ContinueDead goes on with a DeadAct.
type ContinueDead struct {
	ID job.ID `msgpack:"i"`
}

// PutAlert raises an alert: a new one, or once more the one of this kind and
// subject.
type PutAlert struct {
	Kind    string `msgpack:"k"` // one of the Alert* constants
	Subject string `msgpack:"s"` // what it is about, mostly a server's name
	Text    string `msgpack:"t"` // for people; cut to MaxErrorBytes
}

// EndAlert records that somebody has seen an alert, or with Resolved that its
// cause is gone.
type EndAlert struct {
	Kind     string `msgpack:"k"`
	Subject  string `msgpack:"s"`
	Resolved bool   `msgpack:"r,omitempty"`
	Actor    string `msgpack:"a,omitempty"`
}

// CallbackTried records what came of sending a callback. The leader sends it, so
// this carries its term and the version of the callback that it saw.
type CallbackTried struct {
	Term    uint64      `msgpack:"t"`
	Ref     CallbackRef `msgpack:"r"`
	Version uint64      `msgpack:"v"`
	OK      bool        `msgpack:"o,omitempty"` // it was taken
	Status  int         `msgpack:"s,omitempty"` // HTTP status; 0: no answer
	Error   string      `msgpack:"e,omitempty"` // cut to MaxErrorBytes
}

// Redeliver makes a callback owed again, with all its tries before it.
type Redeliver struct {
	Ref CallbackRef `msgpack:"r"`
}

// Checksum keeps the hash chain as of the entry before, which must be the same on
// every server: so servers that are at different entries can compare.
type Checksum struct{}

// maxFanOut bounds the rows that one command may touch beyond its arguments.
const maxFanOut = 1000

// The code of each command.
func (Configure) Code() Code         { return CodeConfigure }
func (PutJob) Code() Code            { return CodePutJob }
func (DeleteJob) Code() Code         { return CodeDeleteJob }
func (Submit) Code() Code            { return CodeSubmit }
func (SubmitNow) Code() Code         { return CodeSubmitNow }
func (TimeOut) Code() Code           { return CodeTimeOut }
func (Assign) Code() Code            { return CodeAssign }
func (Started) Code() Code           { return CodeStarted }
func (Finished) Code() Code          { return CodeFinished }
func (GiveBack) Code() Code          { return CodeGiveBack }
func (LoseAttempts) Code() Code      { return CodeLoseAttempts }
func (Cancel) Code() Code            { return CodeCancel }
func (Reschedule) Code() Code        { return CodeReschedule }
func (RegisterWorker) Code() Code    { return CodeRegisterWorker }
func (WorkerState) Code() Code       { return CodeWorkerState }
func (ForgetWorker) Code() Code      { return CodeForgetWorker }
func (Expire) Code() Code            { return CodeExpire }
func (Checksum) Code() Code          { return CodeChecksum }
func (DrainWorker) Code() Code       { return CodeDrainWorker }
func (DeadLetters) Code() Code       { return CodeDeadLetters }
func (ContinueDead) Code() Code      { return CodeContinueDead }
func (PutAlert) Code() Code          { return CodePutAlert }
func (EndAlert) Code() Code          { return CodeEndAlert }
func (CallbackTried) Code() Code     { return CodeCallbackTried }
func (Redeliver) Code() Code         { return CodeRedeliver }
func (PutSchedule) Code() Code       { return CodePutSchedule }
func (DeleteSchedule) Code() Code    { return CodeDeleteSchedule }
func (PauseSchedule) Code() Code     { return CodePauseSchedule }
func (TriggerSchedule) Code() Code   { return CodeTriggerSchedule }
func (FireSchedules) Code() Code     { return CodeFireSchedules }
func (ContinueSchedules) Code() Code { return CodeContinueSchedules }
func (PutCalendar) Code() Code       { return CodePutCalendar }
func (DeleteCalendar) Code() Code    { return CodeDeleteCalendar }

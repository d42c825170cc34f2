package fsm

import "github.com/axd-project/axd/job"

// Task is what changes of a task. What never changes (payload, an executor of
// its own) is its Body, which is kept apart where it is large, so that a state
// change rewrites little; see BodyOf.
// Times are Unix milliseconds by the cluster's clock; 0 means: not yet.
type Task struct {
	Namespace string     `msgpack:"n"`
	ID        job.ID     `msgpack:"i"`
	Version   uint64     `msgpack:"v"` // +1 with each write
	State     job.State  `msgpack:"s"`
	Job       string     `msgpack:"j,omitempty"` // empty: the body holds the executor
	Offer     string     `msgpack:"K,omitempty"` // what a worker must offer to run a task without job; see job.Executor.Offer
	Policy    job.Policy `msgpack:"p"`           // what the submit said otherwise than the job; priority always set

	Due        int64 `msgpack:"d"`
	Retry      bool  `msgpack:"r,omitempty"` // pending for a further attempt
	Created    int64 `msgpack:"c"`
	Dispatched int64 `msgpack:"D,omitempty"`
	Started    int64 `msgpack:"S,omitempty"`
	Ended      int64 `msgpack:"e,omitempty"`

	Attempt    uint32    `msgpack:"a,omitempty"` // number of the latest attempt; 0: none yet
	Retries    int       `msgpack:"R,omitempty"` // retries spent
	MaxRetries int       `msgpack:"M,omitempty"` // as resolved when last looked at
	Token      job.Token `msgpack:"k"`           // of the current attempt; zero when none is active
	LastToken  job.Token `msgpack:"l"`           // the highest ever given
	Worker     string    `msgpack:"w,omitempty"` // of the latest attempt

	ExitCode        *int   `msgpack:"x,omitempty"`
	Error           string `msgpack:"E,omitempty"`
	IdempotencyKey  string `msgpack:"y,omitempty"`
	KeyExpiry       int64  `msgpack:"Y,omitempty"` // until when the key is claimed
	KeyPeriod       string `msgpack:"O,omitempty"` // tells the key's period apart; see job.TaskSpec.KeyPeriod
	UniqueKey       string `msgpack:"U,omitempty"` // claimed until the task has ended
	CancelRequested bool   `msgpack:"q,omitempty"`
	HasBody         bool   `msgpack:"b,omitempty"` // in a row of its own
	Body            []byte `msgpack:"B,omitempty"` // encoded, where it is small

	// Set where the policy has such a time-out.
	QueueBy int64 `msgpack:"W,omitempty"` // until when a pending task must have been given to a worker
	EndBy   int64 `msgpack:"T,omitempty"` // until when all attempts must be over

	Dead          bool   `msgpack:"X,omitempty"` // a dead letter
	Compensates   job.ID `msgpack:"C,omitempty"` // the failed task that it makes good for
	CompensatedBy job.ID `msgpack:"Z,omitempty"` // the task that makes good for it

	// Of a task under limits: the keys that its payload held for them when it was
	// submitted, and the concurrency limit that its current attempt holds.
	Limited        bool   `msgpack:"A,omitempty"`
	FairnessKey    string `msgpack:"8,omitempty"` // its own or its job's, as it was when the task was submitted
	ConcurrencyKey string `msgpack:"G,omitempty"`
	RateKey        string `msgpack:"H,omitempty"`
	Holds          string `msgpack:"J,omitempty"` // a LimitID without namespace; see LimitID.held

	// A Reschedule of an armed task waits here until its worker gives it back.
	WantDue      int64        `msgpack:"u,omitempty"`
	WantPriority job.Priority `msgpack:"P,omitempty"`
	TooLate      bool         `msgpack:"L,omitempty"` // the attempt had started before a Reschedule could take it back

	Callback   uint64 `msgpack:"1,omitempty"` // number of its newest kept callback; 0: none
	CallbackOf job.ID `msgpack:"2,omitempty"` // the task whose callback this one is

	Run      job.ID `msgpack:"3,omitempty"` // that the task is a step of
	Step     string `msgpack:"4,omitempty"` // its name
	Schedule string `msgpack:"5,omitempty"` // that fired it
	Nominal  int64  `msgpack:"6,omitempty"` // the time of the schedule that it is for
	// FiredBy tells what made the schedule fire it.
	FiredBy FireOrigin `msgpack:"o,omitempty"`
	Item    uint32     `msgpack:"7,omitempty"` // of a step that fans out: the number of the item; 0: it is the step's own task

	Extra *Extra `msgpack:"9,omitempty"` // what few tasks have; it is not changed but replaced
}

// Extra is what few tasks have.
type Extra struct {
	Done bool `msgpack:"d,omitempty"` // it has a row in tableOnce

	Broadcast *Parts `msgpack:"b,omitempty"` // of a task that goes to every worker that fits: what has become of it
	Parent    job.ID `msgpack:"p,omitempty"` // the broadcast that it is a part of
	Bound     string `msgpack:"w,omitempty"` // the worker that alone may run it
}

// clone returns a copy that may be changed.
func (x *Extra) clone() *Extra {
	if x == nil {
		return new(Extra)
	}
	return new(*x)
}

// Body is what never changes of a task.
type Body struct {
	Executor job.Executor `msgpack:"x"`
	Payload  []byte       `msgpack:"p,omitempty"`
}

// maxInlineBody is how large, in bytes, an encoded body may be that is kept in
// its task: to rewrite so much costs less than another row.
const maxInlineBody = 512

// Attempt is one dispatch of a task to one worker.
type Attempt struct {
	Number     uint32        `msgpack:"n"`
	Worker     string        `msgpack:"w"`
	Boot       string        `msgpack:"b,omitempty"`
	Address    string        `msgpack:"a,omitempty"` // the worker's address then
	Token      job.Token     `msgpack:"k"`
	JobVersion uint64        `msgpack:"v,omitempty"`
	Assigned   int64         `msgpack:"A"`
	Started    int64         `msgpack:"S,omitempty"`
	Ended      int64         `msgpack:"e,omitempty"`
	Outcome    job.Outcome   `msgpack:"o,omitempty"`
	Result     AttemptResult `msgpack:"r"`
	Late       []LateResult  `msgpack:"L,omitempty"` // reports refused because the token was no longer valid, at most 3
}

// LateResult is evidence of a report that came after its token had ended.
type LateResult struct {
	At      int64       `msgpack:"a"`
	Outcome job.Outcome `msgpack:"o"`
	Error   string      `msgpack:"e,omitempty"`
}

// Job is a definition in its newest version.
type Job struct {
	Namespace string   `msgpack:"n"`
	Name      string   `msgpack:"N"`
	Version   uint64   `msgpack:"v"`
	Spec      job.Spec `msgpack:"s"`
	Created   int64    `msgpack:"c"`
	Updated   int64    `msgpack:"u"`
	FileSet   string   `msgpack:"f,omitempty"` // whose files describe it; empty: no file does
	Paused    *Pause   `msgpack:"p,omitempty"` // none of its tasks is given to a worker
}

// Worker is a worker as state knows it. Whether its session is up is the
// leader's knowledge, not state.
type Worker struct {
	Name       string            `msgpack:"n"`
	Boot       string            `msgpack:"b"`
	Address    string            `msgpack:"a"`
	Slots      int               `msgpack:"s"`
	Labels     map[string]string `msgpack:"l,omitempty"`
	Version    string            `msgpack:"v,omitempty"`
	LeaseMS    int64             `msgpack:"e,omitempty"` // the longest lease ever granted under this name, since an earlier life may count on it
	Lost       bool              `msgpack:"x,omitempty"`
	Draining   bool              `msgpack:"d,omitempty"`
	DrainBy    int64             `msgpack:"D,omitempty"` // of a drain: what runs then is given back, Unix ms; 0: it may end
	Registered int64             `msgpack:"r"`           // this boot, Unix ms
	Changed    int64             `msgpack:"c"`           // last change, Unix ms

	Priorities []job.Priority `msgpack:"p,omitempty"` // that it takes; none: all
}

package job

// Executor tells how an attempt runs. Exactly one field is set.
type Executor struct {
	Exec    *Exec  `msgpack:"x,omitempty" json:"exec,omitempty"`
	HTTP    *HTTP  `msgpack:"h,omitempty" json:"http,omitempty"`
	Handler string `msgpack:"f,omitempty" json:"handler,omitempty"` // name of a function in a program that uses the worker library
}

// Kind returns "exec", "http", "handler" or "" when none is set.
func (e Executor) Kind() string {
	switch {
	case e.Exec != nil:
		return KindExec
	case e.HTTP != nil:
		return KindHTTP
	case e.Handler != "":
		return KindHandler
	}
	return ""
}

// Offer names what a worker must offer to run the executor: "exec", "http" or
// "handler:NAME".
func (e Executor) Offer() string {
	if e.Handler != "" {
		return "handler:" + e.Handler
	}
	return e.Kind()
}

// Exec runs a command. There is no shell unless the command names one.
type Exec struct {
	Command []string          `msgpack:"c" json:"command"`
	Env     map[string]string `msgpack:"e,omitempty" json:"env,omitempty"`   // added to the worker's own environment
	Dir     string            `msgpack:"d,omitempty" json:"dir,omitempty"`   // absolute; default: a fresh directory of the attempt
	User    string            `msgpack:"u,omitempty" json:"user,omitempty"`  // needs a worker that runs as root
	Stdin   string            `msgpack:"i,omitempty" json:"stdin,omitempty"` // bytes given on standard input
	Limits  Limits            `msgpack:"l,omitempty" json:"limits,omitzero"`
}

// Limits bound what a command may use, where the worker's system allows it.
// Zero means no limit.
type Limits struct {
	CPU    float64 `msgpack:"c,omitempty" json:"cpu,omitempty"`    // cores, such as 0.5; needs cgroup v2 delegation
	Memory int64   `msgpack:"m,omitempty" json:"memory,omitempty"` // bytes, of the whole process group with cgroup v2, else of each process's address space
}

// HTTP makes one request. Redirects are not followed.
type HTTP struct {
	Method  string            `msgpack:"m,omitempty" json:"method,omitempty"` // default POST
	URL     string            `msgpack:"u" json:"url"`
	Headers map[string]string `msgpack:"h,omitempty" json:"headers,omitempty"`
	Body    string            `msgpack:"b,omitempty" json:"body,omitempty"` // default: the task's payload
}

// OnDisconnect tells what a worker that lost its lease does with an attempt.
type OnDisconnect string

// The choices of OnDisconnect. The empty string means DisconnectKill.
const (
	DisconnectKill     OnDisconnect = "kill"     // end it before the lease ends
	DisconnectContinue OnDisconnect = "continue" // let it run; needs a time-out
)

// OnExhausted tells what becomes of a task that has failed for good.
type OnExhausted string

// The choices of OnExhausted. The empty string means ExhaustedDeadLetter.
const (
	ExhaustedDeadLetter OnExhausted = "dead_letter" // it is kept until somebody replays or discards it
	ExhaustedIgnore     OnExhausted = "ignore"      // it goes as every ended task
)

// Policy is what a job says and a single task may say otherwise. A nil or empty
// field is unset.
type Policy struct {
	App      string    `msgpack:"a,omitempty" json:"app,omitempty"`
	Owner    string    `msgpack:"o,omitempty" json:"owner,omitempty"`
	Priority Priority  `msgpack:"p,omitempty" json:"priority,omitempty"` // default normal
	Timeout  *Duration `msgpack:"t,omitempty" json:"timeout,omitempty"`  // of one attempt; absent or 0: no limit
	Grace    *Duration `msgpack:"g,omitempty" json:"grace,omitempty"`    // from TERM to KILL; default 5s, at most 1h

	// Of each of these, absent or 0 means no limit.
	QueueTimeout     *Duration `msgpack:"Q,omitempty" json:"queue_timeout,omitempty"`     // of a due task without a worker
	TotalTimeout     *Duration `msgpack:"Z,omitempty" json:"total_timeout,omitempty"`     // of all attempts, from the first due time
	HeartbeatTimeout *Duration `msgpack:"H,omitempty" json:"heartbeat_timeout,omitempty"` // of an attempt's silence; not for http

	Retry        *Retry            `msgpack:"r,omitempty" json:"retry,omitempty"`         // default: 5 retries, 2s doubling to 5m
	Selector     map[string]string `msgpack:"s,omitempty" json:"selector,omitempty"`      // labels that the worker must carry
	SuccessCodes []int             `msgpack:"c,omitempty" json:"success_codes,omitempty"` // exit codes (default 0) or HTTP statuses (default 200-299)
	OnDisconnect OnDisconnect      `msgpack:"n,omitempty" json:"on_disconnect,omitempty"`
	Route        *Route            `msgpack:"w,omitempty" json:"route,omitempty"` // which workers beside the selector, and which of them
	OnExhausted  OnExhausted       `msgpack:"X,omitempty" json:"on_exhausted,omitempty"`
	Compensation string            `msgpack:"C,omitempty" json:"compensation,omitempty"` // the job to run when the task has failed for good
	Concurrency  *Concurrency      `msgpack:"M,omitempty" json:"concurrency,omitempty"`  // attempts active at once
	Rate         *Rate             `msgpack:"R,omitempty" json:"rate,omitempty"`         // attempts begun within a time

	// CallbackURL is sent the result of a task that ended; CallbackJob is run with it
	// as payload. One of them, or neither.
	CallbackURL string   `msgpack:"1,omitempty" json:"callback_url,omitempty"`
	CallbackJob string   `msgpack:"2,omitempty" json:"callback_job,omitempty"`
	CallbackOn  []string `msgpack:"3,omitempty" json:"callback_on,omitempty"` // only where it ended so; default: however it ended

	// CallbackSecret names the secret that requests to CallbackURL are signed with.
	CallbackSecret string `msgpack:"4,omitempty" json:"callback_secret,omitempty"`

	// FairnessKey: within a priority and namespace, those of different keys take turns.
	FairnessKey string `msgpack:"5,omitempty" json:"fairness_key,omitempty"`

	// Idempotent: two attempts may run at one time, so none waits for the end of a
	// silent worker's lease.
	Idempotent *bool `msgpack:"Y,omitempty" json:"idempotent,omitempty"`
}

// Spec is a job's definition. Its namespace and name are the key it is kept under.
type Spec struct {
	Description string `msgpack:"D,omitempty" json:"description,omitempty"`
	Executor    `msgpack:",inline"`
	Policy      `msgpack:",inline"`
}

// TaskSpec is a request for one task: a job's name, or an executor of its own,
// and what this task wants otherwise than its job.
type TaskSpec struct {
	Job      string `msgpack:"J,omitempty" json:"job,omitempty"`
	Executor `msgpack:",inline"`
	Policy   `msgpack:",inline"`

	// Payload is opaque: the bytes of a JSON value as they were sent.
	Payload []byte `msgpack:"P,omitempty" json:"-"`
	// Due is Unix milliseconds; 0: now. A time that has passed means now.
	Due int64 `msgpack:"T,omitempty" json:"-"`
	// Delay counts from the moment the cluster stamps the command; excludes Due.
	Delay Duration `msgpack:"L,omitempty" json:"-"`

	IdempotencyKey string `msgpack:"K,omitempty" json:"idempotency_key,omitempty"`
	// IdempotencyWindow counts from creation; default 24h, at most 30d.
	IdempotencyWindow Duration `msgpack:"W,omitempty" json:"idempotency_window,omitempty"`
	// IdempotencyPeriod lets the key hold within each period of due times, in place of a window.
	IdempotencyPeriod Duration          `msgpack:"E,omitempty" json:"idempotency_period,omitempty"`
	IdempotencyPolicy IdempotencyPolicy `msgpack:"I,omitempty" json:"idempotency_policy,omitempty"`
	// UniqueKey: at most one task of that key in the namespace has not yet ended.
	UniqueKey string `msgpack:"U,omitempty" json:"unique_key,omitempty"`
}

// The limits of what users may send.
const (
	MaxPayload        = 256 << 10 // bytes
	MaxName           = 253       // bytes
	MaxBatch          = 10_000    // tasks in one batch
	MaxIdempotencyKey = 255       // bytes
	MaxRetriesLimit   = 1000
	MaxLabels         = 64
	MinMemory         = 64 << 10  // bytes that a command may be limited to
	MaxSpecBytes      = 128 << 10 // an executor with its environment, stdin and body, encoded
)

// DefaultNamespace is used unless a request names another.
const DefaultNamespace = "default"

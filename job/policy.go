package job

import "time"

// What holds where neither a task nor its job says otherwise.
const (
	DefaultGrace             = Duration(5 * time.Second)
	DefaultIdempotencyWindow = Duration(24 * time.Hour)
)

// Merge returns p with every field that over sets taken from over: a task's
// policy over its job's. A field is taken as a whole, so a task that gives a
// retry or a selector replaces all of it.
func (p Policy) Merge(over Policy) Policy {
	if over.App != "" {
		p.App = over.App
	}
	if over.Owner != "" {
		p.Owner = over.Owner
	}
	if over.Priority != 0 {
		p.Priority = over.Priority
	}
	if over.Timeout != nil {
		p.Timeout = over.Timeout
	}
	if over.Grace != nil {
		p.Grace = over.Grace
	}
	if over.QueueTimeout != nil {
		p.QueueTimeout = over.QueueTimeout
	}
	if over.TotalTimeout != nil {
		p.TotalTimeout = over.TotalTimeout
	}
	if over.HeartbeatTimeout != nil {
		p.HeartbeatTimeout = over.HeartbeatTimeout
	}
	if over.Retry != nil {
		p.Retry = over.Retry
	}
	if len(over.Selector) > 0 {
		p.Selector = over.Selector
	}
	if len(over.SuccessCodes) > 0 {
		p.SuccessCodes = over.SuccessCodes
	}
	if over.Route != nil {
		p.Route = over.Route
	}
	if over.OnDisconnect != "" {
		p.OnDisconnect = over.OnDisconnect
	}
	if over.OnExhausted != "" {
		p.OnExhausted = over.OnExhausted
	}
	if over.Compensation != "" {
		p.Compensation = over.Compensation
	}
	if over.Concurrency != nil {
		p.Concurrency = over.Concurrency
	}
	if over.Rate != nil {
		p.Rate = over.Rate
	}
	p.mergeCallback(&over)
	if over.FairnessKey != "" {
		p.FairnessKey = over.FairnessKey
	}
	if over.Idempotent != nil {
		p.Idempotent = over.Idempotent
	}
	return p
}

func (p *Policy) mergeCallback(over *Policy) {
	if over.CallbackURL != "" || over.CallbackJob != "" {
		p.CallbackURL, p.CallbackJob = over.CallbackURL, over.CallbackJob
		if p.CallbackJob != "" {
			p.CallbackSecret = ""
		}
	}
	if over.CallbackSecret != "" {
		p.CallbackSecret = over.CallbackSecret
	}
	if len(over.CallbackOn) > 0 {
		p.CallbackOn = over.CallbackOn
	}
}

// PriorityOnly reports whether the policy says nothing but, perhaps, a priority,
// as that of most tasks.
func (p Policy) PriorityOnly() bool {
	return p.App == "" && p.Owner == "" && p.Timeout == nil && p.Grace == nil &&
		p.QueueTimeout == nil && p.TotalTimeout == nil && p.HeartbeatTimeout == nil && p.Idempotent == nil && p.Retry == nil &&
		len(p.Selector) == 0 && len(p.SuccessCodes) == 0 && p.OnDisconnect == "" && p.Route == nil &&
		p.OnExhausted == "" && p.Compensation == "" && p.FairnessKey == "" &&
		p.Concurrency == nil && p.Rate == nil &&
		p.CallbackURL == "" && p.CallbackJob == "" && len(p.CallbackOn) == 0 && p.CallbackSecret == ""
}

// RetryOrDefault returns the retry rule with all its defaults filled in.
func (p Policy) RetryOrDefault() Retry {
	if p.Retry == nil {
		return Retry{}.resolved()
	}
	return p.Retry.resolved()
}

// TimeoutOrDefault returns the time-out of one attempt; 0 means no limit, which
// is the default too.
func (p Policy) TimeoutOrDefault() Duration { return orNone(p.Timeout) }

// QueueTimeoutOrDefault returns how long a due task may wait for a worker; 0
// means no limit, which is the default too.
func (p Policy) QueueTimeoutOrDefault() Duration { return orNone(p.QueueTimeout) }

// TotalTimeoutOrDefault returns how long all attempts together may take, the
// pauses between them included; 0 means no limit, which is the default too.
func (p Policy) TotalTimeoutOrDefault() Duration { return orNone(p.TotalTimeout) }

// HeartbeatTimeoutOrDefault returns how long an attempt may be silent; 0 means
// that it need not beat, which is the default too.
func (p Policy) HeartbeatTimeoutOrDefault() Duration { return orNone(p.HeartbeatTimeout) }

func orNone(d *Duration) Duration {
	if d == nil {
		return 0
	}
	return *d
}

// Until returns the moment, in Unix milliseconds, at which a time-out that began
// at from has passed; 0 where there is no limit or it lies past MaxTime.
func (d Duration) Until(from int64) int64 {
	if ms := d.Milliseconds(); ms > 0 && ms <= MaxTime-from {
		return from + ms
	}
	return 0
}

// GraceOrDefault returns the time from TERM to KILL; an explicit 0 means that
// KILL comes at once.
func (p Policy) GraceOrDefault() Duration {
	if p.Grace == nil {
		return DefaultGrace
	}
	return *p.Grace
}

// PriorityOrDefault returns the priority, Normal where unset.
func (p Policy) PriorityOrDefault() Priority {
	if p.Priority == 0 {
		return Normal
	}
	return p.Priority
}

// OnExhaustedOrDefault returns what becomes of a task that has failed for good.
func (p Policy) OnExhaustedOrDefault() OnExhausted {
	if p.OnExhausted == "" {
		return ExhaustedDeadLetter
	}
	return p.OnExhausted
}

// OnDisconnectOrDefault returns what a worker that lost its lease does.
func (p Policy) OnDisconnectOrDefault() OnDisconnect {
	if p.OnDisconnect == "" {
		return DisconnectKill
	}
	return p.OnDisconnect
}

// IsIdempotent reports whether another attempt may run beside one whose worker is
// silent.
func (p Policy) IsIdempotent() bool { return p.Idempotent != nil && *p.Idempotent }

// IsSuccess reports whether an attempt of an executor of the given kind that
// ended with code counts as a success: by SuccessCodes if there are any, else
// 200 to 299 for http and 0 for the others.
func (p Policy) IsSuccess(kind string, code int) bool {
	if len(p.SuccessCodes) > 0 {
		for _, c := range p.SuccessCodes {
			if c == code {
				return true
			}
		}
		return false
	}
	if kind == KindHTTP {
		return code >= 200 && code <= 299
	}
	return code == 0
}

// IdempotencyWindowOrDefault returns how long the task's idempotency key holds,
// counted from creation.
func (t TaskSpec) IdempotencyWindowOrDefault() Duration {
	if t.IdempotencyWindow == 0 {
		return DefaultIdempotencyWindow
	}
	return t.IdempotencyWindow
}

// DueAt returns when the task is due if it is created at now: now itself, its
// Due unless that has passed, or now and its Delay. All are Unix milliseconds
// by the cluster's clock. A time after MaxTime is refused.
func (t TaskSpec) DueAt(now int64) (int64, *Error) {
	due := max(now, t.Due)
	if t.Delay > 0 {
		due = now + t.Delay.Milliseconds()
	}
	if due > MaxTime {
		return 0, Invalid("delay", "must not lead past the year 9999", t.Delay.String())
	}
	return due, nil
}

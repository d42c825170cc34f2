package fsm

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/axd-project/axd/job"
)

// command builds the command that a script's line names.
func (e *scriptEnv) command(verb string, f fields, input string) Command {
	switch verb {
	case "configure":
		c := Configure{ClusterID: f["id"], FeatureLevel: uint32(f.number("level"))}
		if f["suspend-low"] != "" || f["high-slots"] != "" {
			c.Settings = &job.Settings{}
			if v := f["suspend-low"]; v != "" {
				c.Settings.SuspendLow = new(v == "true")
			}
			if f["high-slots"] != "" {
				c.Settings.HighSlots = new(int(f.number("high-slots")))
			}
		}
		return c
	case "quota", "max-pending":
		return quotaCommand(verb, f)
	case "put-job":
		return PutJob{Namespace: f.ns(), Name: f["name"], Spec: e.spec(f), FileSet: f["file-set"]}
	case "pause-job", "resume-job":
		return PauseJob{Namespace: f.ns(), Name: f["name"], Resume: verb == "resume-job", Reason: f["reason"], Actor: f["actor"]}
	case "delete-job":
		return DeleteJob{Namespace: f.ns(), Name: f["name"]}
	case "submit":
		c := Submit{Namespace: f.ns()}
		if input == "" {
			c.Tasks = append(c.Tasks, e.taskSpec(f))
		}
		for line := range strings.Lines(input) {
			c.Tasks = append(c.Tasks, e.taskSpec(parseFields(strings.Fields(line))))
		}
		return c
	case "submit-now":
		return e.submitNow(f, input)
	case "assign":
		return e.assign(f)
	case "started":
		return Started{AttemptRef: e.attemptRef(f), At: f.time("at")}
	case "finished":
		return Finished{AttemptRef: e.attemptRef(f), Result: e.result(f)}
	case "give-back":
		return GiveBack{Attempts: e.attemptRefs(f), Reason: f["reason"]}
	case "lose":
		c := LoseAttempts{
			Term: e.termOf(f), Attempts: e.attemptRefs(f),
			Outcome: e.outcome(f.or("outcome", "lost")), Reason: f["reason"],
		}
		if f["unstarted"] != "" {
			c.Attempts, c.Unstarted = nil, c.Attempts
		}
		return c
	case "time-out":
		c := TimeOut{Term: e.termOf(f)}
		for _, name := range strings.Split(f["task"], ",") {
			ref := e.ref(fields{"task": name, "ns": f.ns()})
			t, _ := GetTask(e.tx, ref)
			c.Tasks = append(c.Tasks, TaskVersion{ref, t.Version + uint64(f.number("newer"))})
		}
		return c
	case "cancel":
		return Cancel{Ref: e.ref(f), Reason: f["reason"], Actor: f["actor"]}
	case "reschedule":
		return Reschedule{
			Ref: e.ref(f), Due: f.time("due"), Delay: f.duration("delay"), Now: f["now"] != "", Priority: e.priority(f),
		}
	case "replay-dead", "discard-dead", "continue-dead":
		return e.deadCommand(verb, f)
	case "expire":
		return Expire{EndedBefore: e.now - f.duration("keep").Milliseconds()}
	case "checksum":
		return Checksum{}
	case "alert":
		return PutAlert{Kind: f["kind"], Subject: f["subject"], Text: f["text"]}
	case "ack":
		return EndAlert{Kind: f["kind"], Subject: f["subject"], Actor: f["actor"]}
	case "resolve":
		return EndAlert{Kind: f["kind"], Subject: f["subject"], Resolved: true}
	}
	if c, ok := e.callbackCommand(verb, f); ok {
		return c
	}
	if c, ok := e.runCommand(verb, f, input); ok {
		return c
	}
	if c, ok := e.secretCommand(verb, f); ok {
		return c
	}
	if c, ok := e.broadcastCommand(verb, f); ok {
		return c
	}
	if c, ok := e.scheduleCommand(verb, f, input); ok {
		return c
	}
	if verb == "send" {
		return e.sendEvent(f)
	}
	return e.workerCommand(verb, f)
}

func (e *scriptEnv) workerCommand(verb string, f fields) Command {
	switch verb {
	case "register":
		c := RegisterWorker{
			Term: e.termOf(f), Name: f["name"], Boot: f.or("boot", "b1"), Address: f.or("address", "10.0.0.1:7482"),
			Slots: int(f.number("slots")), Version: f["version"],
		}
		for name := range strings.SplitSeq(f["priorities"], "+") {
			var p job.Priority
			if name != "" && p.UnmarshalText([]byte(name)) == nil {
				c.Priorities = append(c.Priorities, p)
			}
		}
		if l := f["label"]; l != "" {
			k, v, _ := strings.Cut(l, ":")
			c.Labels = map[string]string{k: v}
		}
		return c
	case "worker-state":
		return WorkerState{Term: e.termOf(f), Name: f["name"], Alive: f["alive"] != ""}
	case "drain":
		return DrainWorker{Name: f["name"], Resume: f["resume"] != "", Deadline: f.duration("deadline")}
	case "forget":
		return ForgetWorker{Name: f["name"]}
	}
	panic("unknown script command " + verb)
}

func (e *scriptEnv) termOf(f fields) uint64 {
	if t := f.number("term"); t != 0 {
		return uint64(t)
	}
	return e.term
}

func (e *scriptEnv) priority(f fields) (p job.Priority) {
	if s := f["priority"]; s != "" {
		if err := p.UnmarshalText([]byte(s)); err != nil {
			panic(err)
		}
	}
	return p
}

// policy has retries without jitter, so that the scripts show whole delays.
func (e *scriptEnv) policy(f fields) job.Policy {
	p := job.Policy{OnExhausted: job.OnExhausted(f["exhausted"]), Compensation: f["compensation"], App: f["app"], Owner: f["owner"], Priority: e.priority(f)}
	for name, d := range map[string]**job.Duration{"queue": &p.QueueTimeout, "total": &p.TotalTimeout} {
		if f[name] != "" {
			*d = new(f.duration(name))
		}
	}
	limitPolicy(f, &p)
	if f["route"] != "" {
		p.Route = &job.Route{Strategy: job.RouteStrategy(f["route"])}
	}
	p.CallbackURL, p.CallbackJob, p.CallbackSecret = f["callback"], f["callback-job"], f["callback-secret"]
	if on := f["on"]; on != "" {
		p.CallbackOn = strings.Split(on, ",")
	}
	if f["retries"] != "" {
		none := job.JitterNone
		p.Retry = &job.Retry{
			MaxRetries: new(int(f.number("retries"))), Initial: f.duration("initial"), Factor: 2,
			Cap: job.Duration(60_000_000_000), Jitter: &none,
		}
		if p.Retry.Initial == 0 {
			p.Retry.Initial = job.Duration(1_000_000_000)
		}
		if p.Retry.Strategy = job.Strategy(f["strategy"]); p.Retry.Strategy != "" {
			p.Retry.Factor = 0
		}
		if f["no-exit"] != "" || f["no-error"] != "" {
			n := job.NonRetryable{Errors: []string{f.or("no-error", "none")}}
			if f["no-exit"] != "" {
				n.ExitCodes = []int{int(f.number("no-exit"))}
			}
			p.Retry.NonRetryable = &n
		}
	}
	return p
}

func (e *scriptEnv) executor(f fields) (x job.Executor) {
	if c := f["exec"]; c != "" {
		x.Exec = &job.Exec{Command: strings.Split(c, ",")}
	}
	if u := f["http"]; u != "" {
		x.HTTP = &job.HTTP{URL: u}
	}
	x.Handler = f["handler"]
	return x
}

func (e *scriptEnv) spec(f fields) job.Spec {
	return job.Spec{Description: f["text"], Executor: e.executor(f), Policy: e.policy(f)}
}

func (e *scriptEnv) taskSpec(f fields) job.TaskSpec {
	s := job.TaskSpec{
		Job: f["job"], Executor: e.executor(f), Policy: e.policy(f), Due: f.time("due"), Delay: f.duration("delay"),
		IdempotencyKey: f["key"], IdempotencyWindow: f.duration("window"),
		IdempotencyPeriod: f.duration("period"), IdempotencyPolicy: job.IdempotencyPolicy(f["policy"]), UniqueKey: f["unique"],
	}
	if p := f["payload"]; p != "" {
		s.Payload = []byte(p)
	}
	return s
}

// submitNow submits the lines and places each of them that says to=WORKER.
func (e *scriptEnv) submitNow(f fields, input string) Command {
	c, s := SubmitNow{Term: e.termOf(f)}, Submit{Namespace: f.ns()}
	for line := range strings.Lines(input) {
		g := parseFields(strings.Fields(line))
		if name := g["to"]; name != "" {
			w, _ := GetWorker(e.tx, name)
			c.Workers = append(c.Workers, WorkerLife{Name: name, Boot: g.or("boot", w.Boot)})
			c.To = append(c.To, len(c.Workers))
		} else {
			c.To = append(c.To, 0)
		}
		s.Tasks = append(s.Tasks, e.taskSpec(g))
	}
	var err error
	if c.Submit, err = EncodeCommand(s); err != nil {
		panic(err)
	}
	return c
}

// assign hands the named tasks to a worker, in the version they have now.
func (e *scriptEnv) assign(f fields) Command {
	c := Assign{Term: e.termOf(f)}
	w, _ := GetWorker(e.tx, f["worker"])
	for _, name := range strings.Split(f["task"], ",") {
		ref := e.ref(fields{"task": name, "ns": f.ns()})
		t, _ := GetTask(e.tx, ref)
		version := t.Version
		if f["version"] != "" {
			version = uint64(f.number("version"))
		}
		c.Items = append(c.Items, AssignItem{Ref: ref, Version: version, Worker: f["worker"], Boot: f.or("boot", w.Boot)})
	}
	return c
}

func (e *scriptEnv) result(f fields) AttemptResult {
	r := AttemptResult{
		Outcome: e.outcome(f.or("outcome", "success")), Error: f["error"],
		Started: f.time("started"), Ended: f.time("ended"), Class: f["class"], RetryMS: f.number("retry-ms"),
	}
	if f["code"] != "" {
		n := int(f.number("code"))
		r.ExitCode = &n
	}
	for name, to := range map[string]*[]byte{"stdout": &r.Stdout, "stderr": &r.Stderr, "output": &r.Output} {
		if f[name] != "" {
			*to = []byte(f[name])
		}
		if n := f.number(name + "-bytes"); n != 0 {
			*to = append(bytes.Repeat([]byte("x"), int(n)-1), 'z')
		}
	}
	if n := f.number("error-runes"); n != 0 {
		r.Error = "e" + strings.Repeat("é", int(n))
	}
	return r
}

func (e *scriptEnv) token(t job.Token) string {
	if t.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%d.%d", t.Index, t.Offset)
}

func (e *scriptEnv) showResult(b *strings.Builder, r Result) {
	switch {
	case r.Err != nil:
		fmt.Fprintf(b, "%s: %v\n", r.Err.Code, r.Err)
	case r.Tasks != nil:
		for _, s := range r.Tasks {
			e.showSubmit(b, s)
		}
	case r.Assigned != nil:
		for _, a := range r.Assigned {
			if a.Err != nil {
				fmt.Fprintf(b, "%s: %s\n", a.Err.Code, e.nameIDs(a.Err.Error()))
				continue
			}
			fmt.Fprintf(b, "attempt %d, token %s, version %d\n", a.Attempt, e.token(a.Token), a.Version)
		}
	case r.Attempts != nil:
		for _, err := range r.Attempts {
			if err != nil {
				fmt.Fprintf(b, "%s: %s\n", err.Code, e.nameIDs(err.Error()))
			}
		}
	case r.Run != nil:
		e.showRun(b, r.Run)
	case r.Task != nil:
		e.showTask(b, r.Task)
	case r.Fire != nil:
		e.showFire(b, r.Fire)
	case r.Backfill != nil:
		e.showBackfill(b, r.Backfill)
	case r.Sent != nil:
		e.showSent(b, r.Sent)
		fmt.Fprintf(b, "  changed %v\n", r.Changed)
	case r.Done != nil:
		e.showDone(b, r.Done)
		fmt.Fprintf(b, "  changed %v\n", r.Changed)
	case r.Version != 0:
		fmt.Fprintf(b, "version %d, changed %v\n", r.Version, r.Changed)
	case r.Deleted != 0 || r.More || r.Refused != 0:
		fmt.Fprintf(b, "deleted %d, more %v\n", r.Deleted, r.More)
		if r.Refused != 0 {
			fmt.Fprintf(b, "refused %d\n", r.Refused)
		}
	default:
		fmt.Fprintf(b, "changed %v\n", r.Changed)
	}
}

// nameIDs puts t1 in the place of an id.
func (e *scriptEnv) nameIDs(s string) string {
	for _, id := range e.ids {
		s = strings.ReplaceAll(s, id.String(), e.name(id))
	}
	return s
}

func (e *scriptEnv) showSubmit(b *strings.Builder, s SubmitResult) {
	switch {
	case s.Err != nil:
		fmt.Fprintf(b, "%s: %s\n", s.Err.Code, e.nameIDs(s.Err.Error()))
	case s.Deduplicated:
		fmt.Fprintf(b, "deduplicated: ")
		e.showTask(b, s.Task)
	default:
		e.showTask(b, s.Task)
	}
}

func (e *scriptEnv) showTask(b *strings.Builder, t *Task) {
	if t.ID.IsZero() {
		fmt.Fprintln(b, "no such task")
		return
	}
	fmt.Fprintf(b, "%s %s %s v%d due %s", e.name(t.ID), t.State, t.Policy.Priority, t.Version, e.at(t.Due))
	add := func(show bool, format string, args ...any) {
		if show {
			fmt.Fprintf(b, " "+format, args...)
		}
	}
	add(t.Retry, "retry")
	add(t.Job != "", "job %s", t.Job)
	add(t.Offer != "", "offer %s", t.Offer)
	add(t.Attempt > 0, "attempt %d", t.Attempt)
	add(t.Retries > 0, "retries %d/%d", t.Retries, t.MaxRetries)
	add(!t.LastToken.IsZero(), "token %s last %s", e.token(t.Token), e.token(t.LastToken))
	add(t.Worker != "", "worker %s", t.Worker)
	add(t.Dispatched != 0, "dispatched %s", e.at(t.Dispatched))
	add(t.Started != 0, "started %s", e.at(t.Started))
	add(t.Ended != 0, "ended %s", e.at(t.Ended))
	add(t.CancelRequested, "cancel-requested")
	add(t.WantDue != 0, "wanted at %s", e.at(t.WantDue))
	add(t.WantPriority != 0, "wanted %s", t.WantPriority)
	add(t.TooLate, "too-late")
	b.WriteString(e.compensations(t))
	add(t.QueueBy != 0, "queue by %s", e.at(t.QueueBy))
	add(t.EndBy != 0, "end by %s", e.at(t.EndBy))
	add(t.Callback != 0, "callback %d", t.Callback)
	add(t.Schedule != "", "schedule %s nominal %s", t.Schedule, e.at(t.Nominal))
	if !t.CallbackOf.IsZero() {
		fmt.Fprintf(b, " callback-of %s", e.name(t.CallbackOf))
	}
	if t.ExitCode != nil {
		fmt.Fprintf(b, " code %d", *t.ExitCode)
	}
	add(t.Error != "", "error %s", short(t.Error))
	fmt.Fprintln(b)
}

func short(s string) string {
	if len(s) > 80 {
		return fmt.Sprintf("%q...%q (%d bytes)", s[:5], s[len(s)-4:], len(s))
	}
	return fmt.Sprintf("%q", s)
}

func (e *scriptEnv) showAttempt(b *strings.Builder, a *Attempt) {
	fmt.Fprintf(b, "attempt %d at %s (%s, boot %s) token %s assigned %s", a.Number, a.Worker, a.Address, a.Boot, e.token(a.Token), e.at(a.Assigned))
	if a.JobVersion != 0 {
		fmt.Fprintf(b, " job version %d", a.JobVersion)
	}
	if a.Started != 0 {
		fmt.Fprintf(b, " started %s", e.at(a.Started))
	}
	if a.Ended != 0 {
		fmt.Fprintf(b, " ended %s %s", e.at(a.Ended), a.Outcome)
	}
	for _, part := range []struct {
		name string
		text []byte
	}{{"error", []byte(a.Result.Error)}, {"stdout", a.Result.Stdout}, {"stderr", a.Result.Stderr}, {"output", a.Result.Output}} {
		if len(part.text) > 0 {
			fmt.Fprintf(b, " %s %s", part.name, short(string(part.text)))
		}
	}
	fmt.Fprintln(b)
	for _, l := range a.Late {
		fmt.Fprintf(b, "  late at %s: %s %q\n", e.at(l.At), l.Outcome, l.Error)
	}
}

func (e *scriptEnv) showEvent(b *strings.Builder, ev Event) {
	kinds := []string{
		EventPending: "pending", EventAssigned: "assigned", EventRunning: "running", EventAttemptEnded: "attempt ended",
		EventEnded: "ended", EventCancelWanted: "cancel wanted", EventRevokeWanted: "revoke wanted", EventWorkerChanged: "worker changed", EventJobChanged: "job changed", EventSettings: "settings", EventBreaker: "breaker",
		EventBroadcast: "broadcast", EventCallback: "callback", EventSchedule: "schedule", EventScheduleAct: "schedule act",
		EventRunOwed: "run owes work", EventRunEnded: "run ended", EventStepWanted: "verdict wanted", EventListOwed: "list owed",
	}
	fmt.Fprintf(b, "  event: %s", kinds[ev.Kind])
	if ev.Task != nil {
		fmt.Fprintf(b, " %s", e.name(ev.Task.ID))
	}
	if ev.Run != nil {
		fmt.Fprintf(b, " %s", e.runName(ev.Run.Ref()))
	}
	if ev.Callback != nil {
		fmt.Fprintf(b, " %s to %s due %s", e.nameIDs(ev.Callback.Ref().String()), ev.Callback.Target(), e.at(ev.Callback.Due))
	}
	if l := ev.List; l != nil {
		fmt.Fprintf(b, " of %s to %s due %s", l.Schedule, l.Target(), e.at(l.Due))
	}
	if s := ev.Schedule; s != nil {
		fmt.Fprintf(b, " %s", s.Ref.Name)
		if s.Waits && s.At != 0 {
			fmt.Fprintf(b, " at %s", e.at(s.At))
		} else if s.Waits {
			b.WriteString(" at once")
		}
	}
	if ev.Worker != "" {
		fmt.Fprintf(b, " worker %s", ev.Worker)
	}
	if k := ev.Breaker; k != nil {
		e.showBreaker(b, *k)
	}
	if ev.Outcome != 0 {
		fmt.Fprintf(b, " %s", ev.Outcome)
	}
	if !ev.Token.IsZero() {
		fmt.Fprintf(b, " token %s", e.token(ev.Token))
	}
	fmt.Fprintln(b)
}

func (e *scriptEnv) showNext(b *strings.Builder, next string, err error) {
	if err != nil {
		fmt.Fprintf(b, "%s: %v\n", job.AsError(err).Code, err)
	}
	if e.page = next; next != "" {
		fmt.Fprintln(b, "(more)")
	}
}

func (e *scriptEnv) showCounts(b *strings.Builder, f fields) {
	counts := CountTasks(e.tx, f["ns"])
	if f["job"] != "" {
		counts = CountJobTasks(e.tx, f.ns(), f["job"])
	}
	for _, s := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(b, "%s %d\n", s, counts[s])
	}
}

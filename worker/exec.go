package worker

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/axd-project/axd/cluster"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// runExec has the supervisor run a command.
//
// What the command leaves running when its first process ends is ended too:
// TERM, then KILL after two seconds (or the job's grace, if that is shorter).
// A service must be started by a service manager.
func (w *Worker) runExec(a *attempt) ended {
	x := a.executor.Exec
	who, err := lookupUser(x.User)
	if err != nil {
		return notStarted(err.Error())
	}
	if err := a.dir.prepare(a.item.Payload, who); err != nil {
		return notStarted(err.Error())
	}
	dir := cmp.Or(x.Dir, a.dir.work())
	for _, d := range []string{a.dir.work(), dir} {
		if err := who.mayEnter(d); err != nil {
			return notStarted(err.Error())
		}
	}
	if a.item.Continue {
		if err := a.dir.writeItem(&outlivingItem{Item: a.item, Timeout: a.limit.timeout, Total: a.limit.total}); err != nil {
			return notStarted(err.Error())
		}
	}
	link, err := w.super.get()
	if err != nil {
		return ended{giveBack: err.Error()}
	}
	s, err := link.start(startOrder{
		Argv: x.Command, Env: w.environment(a, who), Dir: dir, Stdin: []byte(x.Stdin),
		Mark: a.dir.mark(), Identity: who, Limits: startLimits{CPU: x.Limits.CPU, Memory: x.Limits.Memory},
		Timeout:  int64(a.limit.timeout),
		Pulse:    a.item.HeartbeatMS * int64(time.Millisecond),
		Grace:    a.item.GraceMS * int64(time.Millisecond),
		Continue: a.item.Continue, Generation: firstGeneration,
	}, a.hub.chunk)
	if err != nil {
		return ended{giveBack: err.Error()}
	}
	return w.awaitCommand(a, link, s, process{})
}

// awaitCommand follows a command to its end.
func (w *Worker) awaitCommand(a *attempt, link *link, s *supervised, leader process) ended {
	a.hub.attach(commandOutput{link, s})
	stop, hurried := a.ctx.Done(), w.hurried
	for {
		select {
		case r := <-s.started:
			leader = r.Process
			w.commandBegun(a, r)
		case <-stop:
			stop = nil
			link.stop(s, w.table.reasonOf(a), false)
		case <-hurried:
			hurried = nil
			w.table.stop(a, stopDrain)
			link.stop(s, w.table.reasonOf(a), true)
		case r := <-s.exited:
			select {
			case started := <-s.started: // it came first, both wait
				w.commandBegun(a, started)
			default:
			}
			if r.Reason == stopGone { // children of the command may have outlived the supervisor
				killResidue([]residueMark{{mark: a.dir.mark(), leader: leader}}, residueLimit)
			}
			e := w.endOfCommand(a, r)
			if a.item.Continue {
				e.settle = func() { link.settle(s.seq) }
			}
			return e
		}
	}
}

func (w *Worker) commandBegun(a *attempt, r startedReport) {
	at := time.Duration(r.At)
	if err := a.dir.recordProcess(r.Process, w.startTime(a, at)); err != nil {
		w.log.Warn("a command's process could not be recorded", "error", err)
	}
	if r.Note != "" {
		w.log.Warn(r.Note, refAttrs(a.item.Ref, a.item.Job)...)
	}
	w.begun(a, at)
}

// endOfCommand judges how a command ended.
func (w *Worker) endOfCommand(a *attempt, r exitedReport) ended {
	e := ended{
		started: time.Duration(r.Started), ended: time.Duration(r.Ended),
		stdout: r.Stdout, stderr: r.Stderr, err: r.Error,
	}
	if r.Reason == stopGone {
		e.outcome = job.OutcomeLost
		return e
	}
	if r.Started == 0 {
		if r.Reason != stopNone {
			return unstarted(r.Reason)
		}
		e.outcome, e.class = job.OutcomeFailed, job.ClassStart
		if r.Code != 0 {
			e.exitCode = &r.Code
		}
		return e
	}
	if r.Reason == stopTimeout {
		r.Reason = a.limit.reason()
	}
	e.exitCode = &r.Code
	output, note := a.dir.readOutput()
	e.output = output
	texts := []string{r.Error, note}
	switch {
	case r.Reason != stopNone:
		e.outcome = outcomeOf(r.Reason)
		texts = append([]string{stopCause(r.Reason).Error()}, texts...)
	case a.success(r.Code):
		e.outcome = job.OutcomeSuccess
	case r.Signal != "":
		e.outcome = job.OutcomeFailed
		texts = append([]string{"the command was ended by " + r.Signal}, texts...)
	default:
		e.outcome = job.OutcomeFailed
		texts = append([]string{fmt.Sprintf("the command ended with exit code %d", r.Code)}, texts...)
	}
	e.err = joinTexts(texts)
	return e
}

// joinTexts joins what is known of an end. A call that was stopped often answers
// with the cause of that, so what another text holds already is left out.
func joinTexts(texts []string) string {
	var kept []string
	for i, t := range texts {
		held := t == ""
		for j, other := range texts {
			held = held || i != j && strings.Contains(other, t) && (len(other) > len(t) || j < i)
		}
		if !held {
			kept = append(kept, t)
		}
	}
	return strings.Join(kept, "; ")
}

// environment is the worker's own without its AXD_ settings, which may hold
// secrets, then the job's, then what tells the command who it is.
func (w *Worker) environment(a *attempt, who *identity) []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "AXD_") {
			env = append(env, entry)
		}
	}
	if who != nil {
		env = append(env, "HOME="+who.Home, "USER="+who.Name, "LOGNAME="+who.Name)
	}
	for key, value := range a.executor.Exec.Env {
		env = append(env, key+"="+value)
	}
	if a.item.HeartbeatMS > 0 {
		env = append(env, heartbeatEntry())
	}
	if servers := w.httpServers(); servers != "" {
		env = append(env, "AXD_ADDR="+servers)
	}
	ref := a.item.Ref
	env = append(env,
		"AXD_TASK_ID="+job.ID(ref.ID).String(),
		"AXD_ATTEMPT="+strconv.FormatUint(uint64(ref.Attempt), 10),
		"AXD_FENCING_TOKEN="+tokenOf(ref).String(),
		"AXD_PAYLOAD_FILE="+a.dir.payload(),
		"AXD_EXECUTE_TIME="+job.FormatTime(a.item.DueMS),
		"AXD_OUTPUT_FILE="+a.dir.output(),
		"AXD_JOB="+a.item.Job,
		"AXD_NAMESPACE="+ref.Namespace,
		"AXD_WORKER="+w.cfg.Name,
	)
	env = append(env, origin(a.item.Origin)...)
	return lastOfEach(env)
}

// httpServers lists where servers take requests, as gossip tells, for a command that
// calls axd itself. What listens everywhere does not say where that is.
func (w *Worker) httpServers() string {
	if w.cluster == nil {
		return ""
	}
	var all []string
	for _, m := range w.cluster.Members() {
		at, err := netip.ParseAddrPort(m.HTTP)
		if m.Role == cluster.RoleServer && m.Liveness != cluster.Left && err == nil && !at.Addr().IsUnspecified() {
			all = append(all, m.HTTP)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// origin are the variables that tell what made a task; none where it was submitted.
func origin(o *rpc.Origin) (env []string) {
	if o == nil {
		return nil
	}
	if id := job.ID(o.Run); !id.IsZero() {
		env = append(env, "AXD_RUN="+id.String(), "AXD_STEP="+o.Step)
	}
	if o.Schedule != "" {
		env = append(env, "AXD_SCHEDULE="+o.Schedule)
	}
	if o.NominalMS != 0 {
		env = append(env, "AXD_NOMINAL_TIME="+job.FormatTime(o.NominalMS))
	}
	return env
}

// lastOfEach keeps the last entry of each variable, in order.
func lastOfEach(env []string) []string {
	last := make(map[string]int, len(env))
	for i, entry := range env {
		key, _, _ := strings.Cut(entry, "=")
		last[key] = i
	}
	kept := env[:0]
	for i, entry := range env {
		key, _, _ := strings.Cut(entry, "=")
		if last[key] == i {
			kept = append(kept, entry)
		}
	}
	return kept
}

// lookupUser finds whom a command runs as, by name or number; nil for the
// worker's own user.
func lookupUser(name string) (*identity, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if unknown := user.UnknownUserError(""); errors.As(err, &unknown) {
		u, err = user.LookupId(name)
	}
	if err != nil {
		return nil, job.Invalid("exec.user", "must be a user of the worker's machine", name)
	}
	id, err := identityOf(u)
	if err != nil {
		return nil, err
	}
	switch {
	case int(id.UID) == os.Geteuid():
		return nil, nil
	case os.Geteuid() != 0:
		return nil, job.Errorf(job.CodeUnsupported, fmt.Sprintf("exec.user: to run as %q the worker must run as root", name))
	}
	return id, nil
}

func identityOf(u *user.User) (*identity, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %s: number %q: %w", u.Username, u.Uid, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %s: group %q: %w", u.Username, u.Gid, err)
	}
	id := &identity{UID: uint32(uid), GID: uint32(gid), Name: u.Username, Home: u.HomeDir}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("user %s: groups: %w", u.Username, err)
	}
	for _, g := range groups {
		n, err := strconv.ParseUint(g, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user %s: group %q: %w", u.Username, g, err)
		}
		id.Groups = append(id.Groups, uint32(n))
	}
	return id, nil
}

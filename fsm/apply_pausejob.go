package fsm

import "github.com/axd-project/axd/job"

// CodePauseJob is the code of PauseJob.
const CodePauseJob Code = 118

// PauseJob stops a job's tasks from being given to workers, or with Resume lets them
// go on. What runs is left alone.
type PauseJob struct {
	Namespace string `msgpack:"n"`
	Name      string `msgpack:"N"`
	Resume    bool   `msgpack:"r,omitempty"`
	Reason    string `msgpack:"y,omitempty"` // at most MaxErrorBytes
	Actor     string `msgpack:"a,omitempty"`
}

// Code implements Command.
func (PauseJob) Code() Code { return CodePauseJob }

// Act implements Acting.
func (c PauseJob) Act() Act {
	act := Act{Verb: "pause", Kind: "job", Namespace: c.Namespace, Names: []string{c.Name}, Actor: c.Actor, Detail: c.Reason}
	if c.Resume {
		act.Verb = "resume"
	}
	return act
}

func (a *apply) pauseJob(c *PauseJob) Result {
	old, ok := a.job(c.Namespace, c.Name)
	switch {
	case !ok:
		return rejected(job.NotFound("job", c.Name))
	case c.Resume && old.Paused == nil:
		return rejected(job.Conflict("job", "is not paused", c.Name))
	case !c.Resume && old.Paused != nil:
		return rejected(job.Conflict("job", "is paused already", c.Name))
	}
	j := new(Job)
	*j = *old
	if j.Paused = nil; !c.Resume {
		j.Paused = &Pause{At: a.now, Reason: cut(c.Reason), Actor: plain(c.Actor, MaxActorBytes)}
	}
	a.writeJob(j)
	a.event(Event{Kind: EventJobChanged, Namespace: c.Namespace, Job: c.Name})
	return Result{Changed: true}
}

// isPaused reports whether a task's job is paused.
func (a *apply) isPaused(t *Task) bool {
	if t.Job == "" {
		return false
	}
	j, ok := a.job(t.Namespace, t.Job)
	return ok && j.Paused != nil
}

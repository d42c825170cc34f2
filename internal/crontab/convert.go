package crontab

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/axd-project/axd/job"
)

// Options say what a table itself doesn't.
type Options struct {
	System   bool   // its lines name a user
	User     string // whose table it is; empty: the worker's own user
	Timezone string // of the machine that it is from; empty: not known
	Name     string // of the table, for messages and comments
}

// Definition is a job or a schedule that stands for a line of the table.
type Definition struct {
	Kind, Name string
	Spec       any // *job.Spec or *job.ScheduleSpec
	Comment    string
}

// The variables that cron itself reads.
const (
	varShell, varHome, varPath  = "SHELL", "HOME", "PATH"
	varZone, varDelay, varMail  = "CRON_TZ", "RANDOM_DELAY", "MAILTO"
	defaultShell, defaultSearch = "/bin/sh", "/usr/bin:/bin"
)

// Convert makes each line of a table a job and a schedule of the same name.
func Convert(data []byte, opt Options) ([]Definition, []Note) {
	entries, notes := Read(data, opt.System)
	c := converter{opt: opt, taken: map[string]bool{}, told: map[string]bool{}, notes: notes}
	for i := range entries {
		c.entry(&entries[i])
	}
	slices.SortStableFunc(c.notes, func(a, b Note) int { return cmp.Compare(a.Line, b.Line) })
	return c.out, c.notes
}

type converter struct {
	opt   Options
	out   []Definition
	notes []Note
	taken map[string]bool // names
	told  map[string]bool // notes that are given once
}

func (c *converter) note(line int, text string) {
	c.notes = append(c.notes, Note{Line: line, Text: text})
}

func (c *converter) lost(line int, text string) {
	c.notes = append(c.notes, Note{Line: line, Text: text, Lost: true})
}

// once gives a note for the first line that it holds of.
func (c *converter) once(line int, text string) {
	if !c.told[text] {
		c.told[text] = true
		c.note(line, text)
	}
}

func (c *converter) entry(e *Entry) {
	spec := c.job(e)
	if err := spec.Validate(); err != nil {
		c.lost(e.Line, "can't be a job: "+err.Error()+"; left out")
		return
	}
	name := c.name(e)
	c.out = append(c.out, Definition{"job", name, spec, fmt.Sprintf("%s:%d: %s", c.opt.Name, e.Line, e.Text)})
	plan, wrong := c.schedule(e, name)
	if wrong != "" {
		c.lost(e.Line, wrong+"; the job "+name+" has no schedule")
		return
	}
	c.out = append(c.out, Definition{"schedule", name, plan, ""})
}

// job is the command as cron would run it: by the shell, once, without retries.
func (c *converter) job(e *Entry) *job.Spec {
	env := maps.Clone(e.Env)
	shell := defaultShell
	if s := env[varShell]; s != "" {
		shell = s
	}
	x := &job.Exec{Command: []string{shell, "-c", e.Command}, Stdin: e.Stdin, User: c.opt.User}
	if e.User != "" {
		x.User = e.User
	}
	if x.User != "" {
		c.once(e.Line, "runs as "+x.User+": that takes a worker which runs as root and knows the user")
	}
	if path.IsAbs(env[varHome]) {
		x.Dir = env[varHome]
	} else {
		c.once(e.Line, "cron starts commands in their user's home; axd starts them in a fresh directory, unless the job says exec.dir")
	}
	if env[varMail] != "" {
		c.once(e.Line, "MAILTO: axd sends no mail; it keeps the end of each attempt's output, and tells of ends by callback_url")
	}
	if env[varPath] == "" {
		c.once(e.Line, "cron searches "+defaultSearch+" for programs; axd searches the worker's own PATH, unless exec.env says another")
	}
	for _, name := range e.names() {
		switch {
		case strings.HasPrefix(name, "AXD_"):
			if !c.told[name] {
				c.told[name] = true
				c.lost(e.Line, name+" is left out: names that begin with AXD_ are set by the worker")
			}
			delete(env, name)
		case name == varMail || name == varZone || name == varDelay || name == "MAILFROM" || strings.HasPrefix(name, "CONTENT_"):
			delete(env, name)
		}
	}
	if len(env) > 0 {
		x.Env = env
	}
	return &job.Spec{
		Description: cut(e.Comment, job.MaxDescription),
		Executor:    job.Executor{Exec: x},
		Policy:      job.Policy{Retry: &job.Retry{MaxRetries: new(0)}},
	}
}

// schedule is when cron would run it: in the machine's zone, however long what ran
// before takes, and never late. wrong says why there is none.
func (c *converter) schedule(e *Entry, name string) (s *job.ScheduleSpec, wrong string) {
	s = &job.ScheduleSpec{Job: name, Overlap: job.OverlapAllow, Timezone: c.opt.Timezone}
	if zone := e.Env[varZone]; zone != "" {
		s.Timezone = zone
	}
	if s.Timezone == "" {
		c.once(e.Line, "cron goes by its machine's time zone, which the table doesn't tell: UTC is taken; --timezone says another")
	}
	if delay := e.Env[varDelay]; delay != "" {
		minutes, err := strconv.ParseUint(delay, 10, 16)
		if s.Jitter = job.Duration(time.Duration(minutes) * time.Minute); err != nil || s.Jitter > job.MaxJitter {
			return nil, "RANDOM_DELAY must be a number of minutes, at most a day"
		}
	}
	if wrong := c.when(s, e); wrong != "" {
		return nil, wrong
	}
	if wrong := fires(s, name); wrong != "" {
		return nil, wrong
	}
	if err := s.Validate(); err != nil {
		return nil, err.Error()
	}
	return s, ""
}

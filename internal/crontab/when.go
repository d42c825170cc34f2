package crontab

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/job/cron"
)

var (
	randomSpan = regexp.MustCompile(`^(\d+)~(\d+)$`)
	seconds    = regexp.MustCompile(`^@(\d{1,9})$`)
)

// when sets the times of a schedule.
func (c *converter) when(s *job.ScheduleSpec, e *Entry) (wrong string) {
	s.Cron = job.CronText(e.When)
	switch {
	case e.When == "@reboot":
		return "@reboot has no time, and axd knows no machine that boots: leave it to that machine's service manager"
	case e.When == "@every_minute":
		s.Cron = "* * * * *"
	case e.When == "@every_second":
		s.Cron, s.Every = "", job.Duration(time.Second)
	case seconds.MatchString(e.When):
		n, _ := strconv.ParseInt(e.When[1:], 10, 32)
		s.Cron, s.Every = "", job.Duration(time.Duration(n)*time.Second)
		c.note(e.Line, "cron counts from the end of what ran before; axd counts from one start to the next")
	case strings.Contains(e.When, "~"):
		parts := strings.Fields(e.When)
		for i, f := range parts {
			if f == "~" {
				parts[i] = "H"
			} else if m := randomSpan.FindStringSubmatch(f); m != nil {
				parts[i] = "H(" + m[1] + "-" + m[2] + ")"
			}
		}
		s.Cron = job.CronText(strings.Join(parts, " "))
		c.note(e.Line, "cron draws a time from ~ whenever it reads the table; axd's H draws one by the schedule's name, always the same")
	}
	return ""
}

// fires says why a schedule has no times.
func fires(s *job.ScheduleSpec, name string) (wrong string) {
	if s.Cron == "" {
		return ""
	}
	zone, err := cron.Zone(s.TimezoneOrDefault())
	if err != nil {
		return err.Error()
	}
	if _, err := cron.Parse(string(s.Cron), cron.Options{Location: zone, HashSeed: name}); err != nil {
		return "axd can't say when that is: " + err.Error()
	}
	return ""
}

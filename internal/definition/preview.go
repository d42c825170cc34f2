package definition

import (
	"time"

	"github.com/axd-project/axd/job"
)

// Preview is what the next fires of a schedule follow from beside itself.
type Preview struct {
	Namespace, Name string
	Now             time.Time
	Calendar        func(name string) (*job.CalendarDays, bool)
}

const previewed = 3

// nextFires tells the next planned times of a schedule as it would be.
func nextFires(s *job.ScheduleSpec, in Preview) []string {
	if s.ByPeriod() {
		return []string{"once in each " + string(s.After.PeriodOrDefault()) + ", when all that it comes after has succeeded"}
	}
	if s.Every != 0 && s.Anchor == 0 {
		return []string{"each " + s.Every.String() + " from when it is created"}
	}
	p, e := job.NewPlan(s, job.PlanFor{Namespace: in.Namespace, Name: in.Name, Created: in.Now, Calendar: in.Calendar})
	if e != nil {
		return []string{"can't be told: " + e.Error()}
	}
	if !p.Timed() {
		return nil
	}
	var next []string
	for t, ok := p.Next(in.Now); ok && len(next) < previewed; t, ok = p.Next(t) {
		next = append(next, t.Format(time.RFC3339))
	}
	if next == nil {
		next = []string{"none: all its times have passed"}
	}
	return next
}

// preview gives what is seen from the files and the cluster together.
func (s *Set) preview(namespace string, stored map[*Kind]map[string]Stored) Preview {
	find := func(name string) (*job.CalendarSpec, bool) {
		for _, o := range s.Objects {
			if spec, ok := o.Spec.(*job.CalendarSpec); ok && o.Name == name {
				return spec, true
			}
		}
		spec, ok := stored[calendars][name].Spec.(*job.CalendarSpec)
		return spec, ok
	}
	return Preview{Namespace: namespace, Now: time.Now(), Calendar: func(name string) (*job.CalendarDays, bool) {
		spec, ok := find(name)
		if !ok {
			return nil, false
		}
		days, e := spec.Ready()
		return days, e == nil
	}}
}

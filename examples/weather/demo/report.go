package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// evidence is what the commands themselves wrote.
type evidence struct {
	starts map[string]int // by task
	late   lateness       // of tasks due while a server led
	orphan lateness       // of tasks due while none did, or shortly after
	early  int
}

// lateness is sorted: start minus due.
type lateness []time.Duration

// A change of leader touches a bit more than the time in which nobody leads.
const (
	unsent  = 50 * time.Millisecond // before it: due, but not yet on its way to a worker
	backlog = time.Second           // after it: workers connect, what waited is worked off
)

func (e *etl) evidence(leaderless span) (evidence, error) {
	if !leaderless.from.IsZero() {
		leaderless = span{leaderless.from.Add(-unsent), leaderless.to.Add(backlog)}
	}
	ev := evidence{starts: map[string]int{}}
	files, err := os.ReadDir(filepath.Join(e.dir, "runs"))
	if err != nil {
		return ev, err
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(e.dir, "runs", f.Name()))
		if err != nil {
			return ev, err
		}
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(line) // attempt, token, start, execute time
			if len(fields) != 4 {
				return ev, fmt.Errorf("run record of %s: %q", f.Name(), line)
			}
			ns, err := strconv.ParseInt(fields[2], 10, 64)
			if err != nil {
				return ev, fmt.Errorf("run record of %s: %w", f.Name(), err)
			}
			due, err := time.Parse(time.RFC3339, fields[3])
			if err != nil {
				return ev, fmt.Errorf("run record of %s: %w", f.Name(), err)
			}
			ev.starts[f.Name()]++
			late := time.Unix(0, ns).Sub(due)
			if leaderless.has(due) {
				ev.orphan = append(ev.orphan, late)
			} else {
				ev.late = append(ev.late, late)
			}
			if late < 0 {
				ev.early++
			}
		}
	}
	slices.Sort(ev.late)
	slices.Sort(ev.orphan)
	return ev, nil
}

// quantile is the smallest value that at least the share q of all don't exceed.
func (l lateness) quantile(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(l)))) - 1
	return l[min(max(i, 0), len(l)-1)]
}

func (l lateness) String() string {
	if len(l) == 0 {
		return "-"
	}
	return fmt.Sprintf("median %s, 99%% within %s, worst %s", ms(l.quantile(0.5)), ms(l.quantile(0.99)), ms(l.quantile(1)))
}

// check compares what axd says, what the commands wrote and what is right.
func (e *etl) check(ctx context.Context, c *cluster) error {
	gap := c.leaderless()
	ev, err := e.evidence(gap)
	if err != nil {
		return err
	}
	succeeded, err := e.succeeded(ctx, c.client)
	if err != nil {
		return err
	}
	lost, twice, strange := 0, 0, 0
	for id := range e.ids {
		switch n := ev.starts[id]; {
		case n == 0:
			lost++
		case n > 1:
			twice++
		}
	}
	for id := range ev.starts {
		if !e.ids[id] {
			strange++
		}
	}
	wrong := append(e.wrongParts(), e.wrongYears()...)
	total := len(e.steps) + 1

	fmt.Println()
	tw := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	row := func(name string, value any) { _, _ = fmt.Fprintf(tw, "%s\t%v\n", name, value) }
	row("tasks submitted", len(e.ids))
	row("succeeded", succeeded)
	row("lateness of their starts", ev.late)
	row(fmt.Sprintf("of the %d around the change of leader", len(ev.orphan)), ev.orphan)
	row("leader changes", fmt.Sprintf("%d (nobody led for %.1f s)", c.changes(), gap.to.Sub(gap.from).Seconds()))
	row("lost", lost)
	row("run twice", twice)
	row("started early", ev.early)
	row("results that differ from a direct calculation", fmt.Sprintf("%d of %d", len(wrong), total-1+len(group(e.days, day.year))))
	_ = tw.Flush()
	fmt.Println("\nLateness is what the commands saw: their own clock at their first line, less the time axd gave them.\n" +
		"Workers hold what is due within seconds, so it starts on time while nobody leads.")
	if err := e.printSummary(os.Stdout); err != nil {
		return err
	}

	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(len(e.ids) != total, "%d tasks were accepted, not %d", len(e.ids), total)
	fault(succeeded != total, "%d tasks succeeded, not %d", succeeded, total)
	fault(lost > 0, "%d accepted tasks never ran", lost)
	fault(twice > 0, "%d tasks ran more than once", twice)
	fault(strange > 0, "%d tasks ran that nobody submitted", strange)
	fault(ev.early > 0, "%d tasks started early", ev.early)
	fault(c.changes() == 0, "the leader was killed, but no other took over")
	for _, w := range wrong {
		fault(true, "wrong result: %s", w)
	}
	return errors.Join(faults...)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

// succeeded counts, by what axd says, the accepted tasks that are success. A
// command's result is there a moment before axd has committed its end.
func (e *etl) succeeded(ctx context.Context, cl *client.Client) (int, error) {
	for {
		n, open := 0, 0
		q := client.TaskQuery{Limit: 1000}
		for {
			list, err := cl.Tasks(ctx, q)
			if err != nil {
				return 0, err
			}
			for _, t := range list.Tasks {
				if e.ids[t.ID] && t.State == job.Success.String() {
					n++
				}
				if !client.Ended(t.State) {
					open++
				}
			}
			if q.Cursor = list.NextCursor; q.Cursor == "" {
				break
			}
		}
		if open == 0 || ctx.Err() != nil {
			return n, ctx.Err()
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (e *etl) wrongParts() (wrong []string) {
	for _, s := range e.steps {
		data, err := os.ReadFile(filepath.Join(e.dir, "parts", s.part))
		if err != nil {
			wrong = append(wrong, err.Error())
		} else if got := strings.TrimSuffix(string(data), "\n"); got != s.want {
			wrong = append(wrong, fmt.Sprintf("%s: %q, want %q", s.part, got, s.want))
		}
	}
	return wrong
}

// wrongYears computes the table of years from the days themselves.
func (e *etl) wrongYears() (wrong []string) {
	want := []string{"city,year,rain_mm,rainy_days,hottest_month,wind_max"}
	for _, year := range group(e.days, day.year) {
		hottest := 0.0
		for _, month := range group(year, day.month) {
			hottest = max(hottest, sum(month, tempMax)/float64(len(month)))
		}
		want = append(want, strings.Join([]string{
			year[0].city, year[0].year(), fixed(sum(year, rain), 1), strconv.Itoa(count(year)),
			fixed(hottest, 2), fixed(most(year, wind), 1),
		}, ","))
	}
	data, err := os.ReadFile(filepath.Join(e.dir, "summary.csv"))
	if err != nil {
		return []string{err.Error()}
	}
	got := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for i := range max(len(got), len(want)) {
		g, w := at(got, i), at(want, i)
		if g != w {
			wrong = append(wrong, fmt.Sprintf("summary line %d: %q, want %q", i+1, g, w))
		}
	}
	return wrong
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

func (e *etl) printSummary(w io.Writer) error {
	data, err := os.ReadFile(filepath.Join(e.dir, "summary.csv"))
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = io.WriteString(tw, strings.ReplaceAll(string(data), ",", "\t"))
	return tw.Flush()
}

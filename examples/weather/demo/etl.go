package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// day is one row of the data.
type day struct {
	city, date          string // date: 2012-01-31
	rain, tempMax, wind float64
}

func (d day) month() string { return d.date[:7] }
func (d day) year() string  { return d.date[:4] }

func readDays(path string) ([]day, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	var days []day
	for i, r := range rows[1:] {
		d := day{city: r[0], date: r[1]}
		for _, v := range []struct {
			to   *float64
			text string
		}{{&d.rain, r[2]}, {&d.tempMax, r[3]}, {&d.wind, r[5]}} {
			if *v.to, err = strconv.ParseFloat(v.text, 64); err != nil {
				return nil, fmt.Errorf("%s: row %d: %w", path, i+2, err)
			}
		}
		days = append(days, d)
	}
	return days, nil
}

// metric is something to know about a span of days.
type metric struct {
	name     string
	priority job.Priority
	of       func([]day) string // as the scripts print it
}

var metrics = []metric{
	{"temp_max_mean", job.High, func(ds []day) string { return fixed(sum(ds, tempMax)/float64(len(ds)), 2) }},
	{"rain_mm", job.Normal, func(ds []day) string { return fixed(sum(ds, rain), 1) }},
	{"rainy_days", job.Low, func(ds []day) string { return strconv.Itoa(count(ds)) }},
	{"wind_max", job.Normal, func(ds []day) string { return fixed(most(ds, wind), 1) }},
}

func tempMax(d day) float64 { return d.tempMax }
func rain(d day) float64    { return d.rain }
func wind(d day) float64    { return d.wind }

func fixed(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }

func sum(ds []day, of func(day) float64) (v float64) {
	for _, d := range ds {
		v += of(d)
	}
	return v
}

func most(ds []day, of func(day) float64) (v float64) {
	for _, d := range ds {
		v = max(v, of(d))
	}
	return v
}

func count(ds []day) (n int) {
	for _, d := range ds {
		if d.rain > 0 {
			n++
		}
	}
	return n
}

// step is one task: a metric of a month of a city.
type step struct {
	city, month string
	metric      metric
	want        string // the line its part must hold
	part        string // the part's file
}

// etl is the whole work and what is known of it.
type etl struct {
	dir, csv, scripts string
	days              []day
	steps             []*step
	batch, single     []*step         // those submitted at once and one by one
	ids               map[string]bool // tasks that axd accepted
}

func newETL(root, dir string, days []day) (*etl, error) {
	e := &etl{dir: dir, scripts: filepath.Join(root, "examples/weather"), days: days, ids: map[string]bool{}}
	e.csv = filepath.Join(e.scripts, "weather.csv")
	for _, sub := range []string{"runs", "parts"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	for _, m := range metrics {
		for _, span := range group(days, day.month) {
			s := &step{city: span[0].city, month: span[0].month(), metric: m}
			s.want = strings.Join([]string{s.city, s.month, m.name, m.of(span)}, ",")
			s.part = strings.ReplaceAll(s.city+"-"+s.month+"-"+m.name, " ", "_") + ".csv"
			e.steps = append(e.steps, s)
		}
	}
	cutAt := len(e.steps) * 3 / 4
	e.batch, e.single = e.steps[:cutAt], e.steps[cutAt:]
	return e, nil
}

// group divides days by city and month or year, in that order.
func group(days []day, by func(day) string) [][]day {
	spans := map[string][]day{}
	for _, d := range days {
		key := d.city + " " + by(d)
		spans[key] = append(spans[key], d)
	}
	out := make([][]day, 0, len(spans))
	for _, s := range spans {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b []day) int {
		return cmp.Or(cmp.Compare(a[0].city, b[0].city), cmp.Compare(a[0].date, b[0].date))
	})
	return out
}

func (e *etl) request(s *step) client.SubmitRequest {
	r := client.SubmitRequest{IdempotencyKey: "weather-" + s.part}
	r.Exec = &job.Exec{Command: []string{
		"sh", filepath.Join(e.scripts, "metric.sh"), e.csv, s.city, s.month, s.metric.name, e.dir,
	}}
	r.Priority, r.App = s.metric.priority, "weather"
	return r
}

// submitBatch submits three quarters in one request, due evenly between
// firstDue and lastDue; neighbours in time have different priorities.
func (e *etl) submitBatch(ctx context.Context, cl *client.Client, start time.Time) error {
	rs := make([]client.SubmitRequest, len(e.batch))
	for i, s := range e.batch {
		rs[i] = e.request(s)
		turn := i * 97 % len(e.batch) // 97 shares no divisor with the count: every place is taken once
		due := start.Add(firstDue + (lastDue-firstDue)*time.Duration(turn)/time.Duration(len(e.batch)))
		rs[i].ExecuteTime = due.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	}
	results, err := cl.SubmitBatch(ctx, rs)
	if err != nil {
		return fmt.Errorf("submit the batch: %w", err)
	}
	for i, r := range results {
		if r.Error != nil {
			return fmt.Errorf("task %s was refused: %s %s", e.batch[i].part, r.Error.Code, r.Error.Detail)
		}
		e.ids[r.ID] = true
	}
	if len(results) != len(e.batch) {
		return fmt.Errorf("%d results for %d tasks", len(results), len(e.batch))
	}
	return nil
}

// submitSingles submits the rest one by one until shortly before lastDue, each
// due two seconds later. The leader dies meanwhile: the client sees to it that
// each is still accepted, and once.
func (e *etl) submitSingles(ctx context.Context, cl *client.Client, start time.Time) error {
	delay := job.Duration(2 * time.Second)
	for i, s := range e.single {
		at := start.Add((lastDue - delay.Std()) * time.Duration(i) / time.Duration(len(e.single)))
		select {
		case <-time.After(time.Until(at)):
		case <-ctx.Done():
			return ctx.Err()
		}
		r := e.request(s)
		r.Delay = &delay
		task, err := cl.Submit(ctx, r)
		if err != nil {
			return fmt.Errorf("submit %s: %w", s.part, err)
		}
		e.ids[task.ID] = true
	}
	return nil
}

// parts counts the results that are there.
func (e *etl) parts() (int, error) {
	files, err := filepath.Glob(filepath.Join(e.dir, "parts", "*.csv"))
	return len(files), err
}

// summarize runs the last step and waits for it.
func (e *etl) summarize(ctx context.Context, cl *client.Client) error {
	r := client.SubmitRequest{IdempotencyKey: "weather-summary"}
	r.Exec = &job.Exec{Command: []string{"sh", filepath.Join(e.scripts, "summary.sh"), e.dir}}
	r.App = "weather"
	task, err := cl.Submit(ctx, r)
	if err != nil {
		return fmt.Errorf("submit the summary: %w", err)
	}
	e.ids[task.ID] = true
	if task, err = cl.Wait(ctx, task.ID); err != nil {
		return err
	}
	if task.State != job.Success.String() {
		return fmt.Errorf("the summary is %s: %s", task.State, task.LastError)
	}
	return nil
}

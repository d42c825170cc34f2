package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// keys are the figures that a result may hold, in the order of its JSON. All
// are numbers; docs/performance.md explains them.
var keys = []string{
	"tasks", "rate", "callers", "batch", "seconds", "schedules", "creates_per_s",
	"tasks_per_s", "p50_ms", "p99_ms", "max_ms", "early", "lost", "doubled", "unsuccessful",
	"ack_p50_ms", "ack_p99_ms", "ack_max_ms",
	"lateness_p50_ms", "lateness_p99_ms", "lateness_max_ms", "lateness_none_p99_ms", "lateness_ratio",
	"lateness_first_p99_ms", "lateness_last_p99_ms", "outage_tasks",
	"low_queued", "low_per_s", "low_gap_ms", "low_waiting",
	"write_gap_p50_ms", "write_gap_p99_ms", "write_gap_max_ms", "kills", "elections", "elections_needless",
	"fixed_round0_percent", "fixed_round1_percent", "fixed_round2_percent",
	"jitter_round0_percent", "jitter_round1_percent", "jitter_round2_percent",
	"outage_fixed_peak", "outage_fixed_peak_ratio", "outage_fixed_dead",
	"outage_jitter_peak", "outage_jitter_peak_ratio", "outage_jitter_dead",
	"workflows", "run_s", "advance_p50_ms", "advance_p99_ms", "advance_max_ms", "before_needs",
	"detected_ms", "moved", "again_p50_ms", "again_p99_ms", "again_max_ms",
	"idempotent_p50_ms", "idempotent_p99_ms", "idempotent_max_ms",
	"restart_s", "restart_all_s", "snapshots", "snapshot_pause_ms", "write_gap_snapshot_ms", "write_gap_none_ms",
	"rss_mib_max", "rss_mib_rest", "rss_growth", "disk_mib", "disk_growth",
	"cpu_percent_max", "cpu_cores_leader", "cpu_cores_servers", "cpu_cores_workers", "cpu_cores_load", "cpu_cores_others",
}

// Result is what one scenario measured.
type Result struct {
	Scenario string
	Settings string // flags of servers or load that differ from the scenario's defaults
	Targets  []Target
	values   map[string]float64
}

// Target is what a figure must reach, and whether it did.
type Target struct {
	Key     string  `json:"key"`
	Least   bool    `json:"-"` // the figure must be at least Limit, else at most
	Limit   float64 `json:"limit"`
	Reached bool    `json:"reached"`
}

func (t Target) rule() string {
	if t.Least {
		return "≥ " + number(t.Limit)
	}
	return "≤ " + number(t.Limit)
}

func newResult(scenario string) *Result {
	return &Result{Scenario: scenario, values: map[string]float64{}}
}

// set keeps a figure, rounded to what a reader can use.
func (r *Result) set(key string, v float64) {
	if !slices.Contains(keys, key) {
		panic("bench: no figure is called " + key)
	}
	r.values[key] = round(v)
}

// Value returns a figure.
func (r *Result) Value(key string) (v float64, ok bool) {
	v, ok = r.values[key]
	return v, ok
}

// round keeps three decimals, and no more digits than make sense of a large
// number.
func round(v float64) float64 {
	if math.Abs(v) >= 1000 {
		return math.Round(v)
	}
	return math.Round(v*1000) / 1000
}

// fast and atMost judge a figure against its target. One that is missing has not
// reached it.
func (r *Result) fast(tasksPerS float64)           { r.target("tasks_per_s", tasksPerS, true) }
func (r *Result) atMost(key string, limit float64) { r.target(key, limit, false) }

func (r *Result) target(key string, limit float64, least bool) {
	v, ok := r.values[key]
	reached := ok && (v >= limit || !least) && (v <= limit || least)
	r.Targets = append(r.Targets, Target{Key: key, Least: least, Limit: limit, Reached: reached})
}

// Reached tells whether all targets are.
func (r *Result) Reached() bool {
	return !slices.ContainsFunc(r.Targets, func(t Target) bool { return !t.Reached })
}

// MarshalJSON writes one flat object: scenario first, then the figures that the
// scenario has, then its targets.
func (r *Result) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	field := func(key string, v any) error {
		value, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		} else {
			b.WriteByte('{')
		}
		fmt.Fprintf(&b, "%q:%s", key, value)
		return nil
	}
	if err := field("scenario", r.Scenario); err != nil {
		return nil, err
	}
	for _, key := range keys {
		if v, ok := r.values[key]; ok {
			if err := field(key, v); err != nil {
				return nil, err
			}
		}
	}
	if r.Settings != "" {
		if err := field("settings", r.Settings); err != nil {
			return nil, err
		}
	}
	if len(r.Targets) > 0 {
		if err := field("targets", r.Targets); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// verdicts says of each target whether it was reached, for people.
func (r *Result) verdicts() []string {
	var out []string
	for _, t := range r.Targets {
		verdict := "missed"
		if t.Reached {
			verdict = "reached"
		}
		got := "not measured"
		if v, ok := r.values[t.Key]; ok {
			got = number(v)
		}
		out = append(out, fmt.Sprintf("%s: %s = %s, target %s: %s", r.Scenario, t.Key, got, t.rule(), verdict))
	}
	return out
}

// columns are the rest of a table's row for one target.
func (r *Result) columns(t Target) []string {
	got, verdict := "-", "missed"
	if v, ok := r.values[t.Key]; ok {
		got = number(v)
	}
	if t.Reached {
		verdict = "reached"
	}
	return []string{r.Scenario, t.Key, t.rule(), got, verdict}
}

var header = []string{"scenario", "figure", "target", "measured", "verdict"}

// Table writes targets and figures for people.
func Table(w io.Writer, results []*Result) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, strings.ToUpper(strings.Join(header, "\t")))
	for _, r := range results {
		for _, t := range r.Targets {
			_, _ = fmt.Fprintln(tw, strings.Join(r.columns(t), "\t"))
		}
	}
	return tw.Flush()
}

// Markdown writes the same table for docs/performance.md.
func Markdown(w io.Writer, results []*Result) error {
	var b strings.Builder
	b.WriteString("| " + strings.Join(header, " | ") + " |\n|" + strings.Repeat("---|", len(header)) + "\n")
	for _, r := range results {
		for _, t := range r.Targets {
			b.WriteString("| " + strings.Join(r.columns(t), " | ") + " |\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

package definition

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/axd-project/axd/chaos/process"
	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/server"
)

// cluster starts one real server and returns a client of it.
func cluster(t *testing.T) func(namespace string) *client.Client {
	t.Helper()
	ports, err := process.FreePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Config{
		Name: "s1", DataDir: t.TempDir(), HTTP: ports[0], RPC: ports[1], Gossip: ports[2], BootstrapExpect: 1, Alone: true,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-s.Ready():
	case <-time.After(time.Minute):
		t.Fatal("the server did not become ready")
	}
	return func(namespace string) *client.Client {
		c, err := client.New(client.Config{Addresses: []string{s.HTTPAddr()}, Namespace: namespace})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
}

// lines are texts that a job may hold: awkward, but without the control characters
// that its rules refuse.
func lines(allowed string) *rapid.Generator[string] {
	return rapid.Map(texts(), func(s string) string {
		return strings.Map(func(r rune) rune {
			if (r < ' ' || r >= 0x7f && r < 0xa0) && !strings.ContainsRune(allowed, r) {
				return -1
			}
			return r
		}, s)
	})
}

func specs() *rapid.Generator[job.Spec] {
	return rapid.Custom(func(t *rapid.T) job.Spec {
		spec := job.Spec{Description: lines("\n\t").Draw(t, "description")}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			spec.Exec = &job.Exec{
				Command: append([]string{"sh"}, rapid.SliceOfN(lines("\n\t\r\x01"), 0, 4).Draw(t, "arguments")...),
				Env:     rapid.MapOfN(rapid.StringMatching(`[A-Z_]{1,4}`), lines("\n"), 0, 3).Draw(t, "env"),
				Stdin:   lines("\n\t\r\x00").Draw(t, "stdin"),
				Limits:  job.Limits{CPU: rapid.Float64Range(0, 8).Draw(t, "cpu"), Memory: rapid.Int64Range(1<<16, 1<<60).Draw(t, "memory")},
			}
		case 1:
			spec.HTTP = &job.HTTP{URL: "http://a.example/" + rapid.StringMatching(`[a-z?&=#]{0,9}`).Draw(t, "url"), Body: lines("\n").Draw(t, "body")}
		default:
			spec.Handler = rapid.StringMatching(`[a-z0-9][a-z0-9.-]{0,9}`).Draw(t, "handler")
		}
		if rapid.Bool().Draw(t, "retry") {
			spec.Retry = &job.Retry{
				MaxRetries: new(rapid.IntRange(0, 9).Draw(t, "retries")), Factor: rapid.Float64Range(1, 9).Draw(t, "factor"),
				Jitter: new(job.Jitter(rapid.Float64Range(0, 1).Draw(t, "jitter"))),
			}
		}
		spec.Priority = job.Priority(rapid.IntRange(0, 3).Draw(t, "priority"))
		spec.Timeout = new(job.Duration(rapid.Int64Range(0, 1<<55).Draw(t, "timeout")))
		spec.Selector = rapid.MapOfN(rapid.StringMatching(`[a-z][a-z/.]{0,4}`), rapid.StringMatching(`[a-z0-9]{1,4}`), 0, 3).Draw(t, "selector")
		return spec
	})
}

func payloads() *rapid.Generator[job.JSON] {
	return rapid.Map(values(3), func(raw json.RawMessage) job.JSON {
		return job.JSON(bytes.ReplaceAll(raw, []byte("${{"), []byte("${ {"))) // expressions are checked
	})
}

// plans are schedules of one job, so far off that none fires.
func plans() *rapid.Generator[job.ScheduleSpec] {
	far := rapid.Map(rapid.Int64Range(4e12, 8e12), func(ms int64) job.Timestamp { return job.Timestamp(ms) })
	return rapid.Custom(func(t *rapid.T) job.ScheduleSpec {
		s := job.ScheduleSpec{
			Description: lines("\n\t").Draw(t, "description"), Job: "job-0", Payload: payloads().Draw(t, "payload"),
			Timezone: rapid.SampledFrom([]string{"", "UTC", "Europe/Berlin"}).Draw(t, "zone"),
			Priority: job.Priority(rapid.IntRange(0, 3).Draw(t, "priority")), MaxRuns: rapid.IntRange(0, 9).Draw(t, "runs"),
			Overlap:   rapid.SampledFrom([]job.Overlap{"", job.OverlapSkip, job.OverlapAllow}).Draw(t, "overlap"),
			Tolerance: new(job.Duration(time.Second) * job.Duration(rapid.IntRange(1, 3000).Draw(t, "tolerance"))),
		}
		switch rapid.IntRange(0, 2).Draw(t, "when") {
		case 0:
			s.Cron, s.Start = job.CronText(rapid.SampledFrom([]string{"30 2 * * *", "@daily", "H H * * mon-fri", "0 9 1 * *"}).Draw(t, "cron")), far.Draw(t, "start")
		case 1:
			s.Every, s.Anchor = job.Duration(time.Second)*job.Duration(rapid.IntRange(1, 1e6).Draw(t, "every")), far.Draw(t, "anchor")
			s.Start = far.Draw(t, "start")
		default:
			s.At = far.Draw(t, "at")
		}
		if rapid.Bool().Draw(t, "after") {
			s.After = &job.After{
				All:    []job.Upstream{{Schedule: "upstream"}},
				Period: rapid.SampledFrom([]job.Period{"", job.PeriodHour, job.PeriodDay, job.PeriodYear}).Draw(t, "period"),
				Wait:   job.Duration(time.Second) * job.Duration(rapid.IntRange(0, 1e6).Draw(t, "wait")),
			}
		}
		return s
	})
}

// flows are workflows of one job, with whatever payloads.
func flows() *rapid.Generator[job.WorkflowSpec] {
	return rapid.Custom(func(t *rapid.T) job.WorkflowSpec {
		w := job.WorkflowSpec{Description: lines("\n\t").Draw(t, "description"), MaxParallel: rapid.IntRange(0, 9).Draw(t, "parallel")}
		for i := range rapid.IntRange(1, 4).Draw(t, "steps") {
			s := job.Step{
				Name: fmt.Sprint("s", i), Job: "job-0", Payload: payloads().Draw(t, "payload"), AllowFailure: rapid.Bool().Draw(t, "allow"),
				About: lines("\n\t").Draw(t, "about"),
			}
			if i > 0 {
				s.Needs, s.Rule = []string{fmt.Sprint("s", i-1)}, rapid.SampledFrom(append(job.Rules, "")).Draw(t, "rule")
			}
			if rapid.Bool().Draw(t, "timeout") {
				s.Timeout = new(job.Duration(rapid.Int64Range(0, 1<<50).Draw(t, "timeout")))
			}
			w.Steps = append(w.Steps, s)
		}
		if rapid.Bool().Draw(t, "finally") {
			w.Finally = []job.Step{{Name: "end", Job: "job-0"}}
		}
		return w
	})
}

// Whatever a cluster has: exported and applied, in its namespace or another, it
// changes nothing there, and makes the same here.
func TestExportedAndAppliedNothingChanges(t *testing.T) {
	in := cluster(t)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		ctx := context.Background()
		from, to := in(fmt.Sprint("from", n)), in(fmt.Sprint("to", n))
		made := map[string]job.Spec{}
		for i := range rapid.IntRange(1, 4).Draw(t, "count") {
			name := fmt.Sprint("job-", i)
			made[name] = specs().Draw(t, name)
			if _, err := from.PutJob(ctx, name, made[name]); err != nil {
				t.Fatalf("%v: %+v", err, made[name])
			}
		}
		if w := flows().Draw(t, "workflow"); w.Validate() == nil {
			if _, err := from.PutWorkflow(ctx, "w", w); err != nil {
				t.Fatalf("%v: %+v", err, w)
			}
		}
		if _, err := from.PutSchedule(ctx, "upstream", job.ScheduleSpec{Job: "job-0", Cron: "0 0 1 1 *"}); err != nil {
			t.Fatal(err)
		}
		s := plans().Draw(t, "schedule")
		if _, err := from.PutSchedule(ctx, "s", s); err != nil {
			t.Fatalf("%v: %+v", err, s)
		}
		plan := applied(t, from)
		if plan.Changes() != 0 || plan.Count(Unchanged) <= len(made) {
			t.Fatalf("exported and planned: %+v", plan.Steps)
		}
		for _, s := range plan.Steps {
			if s.Version != 1 {
				t.Fatalf("%+v", s)
			}
		}
		copied(t, from, to)
		if again := applied(t, to); again.Changes() != 0 {
			t.Fatalf("copied and planned: %+v", again.Steps)
		}
	})
}

func exported(t *rapid.T, c *client.Client) *Set {
	docs, err := Export(context.Background(), c, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := WriteTo(&text, docs); err != nil {
		t.Fatal(err)
	}
	set, err := Load([]string{"-"}, &text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	return set
}

// applied plans and applies what a cluster has to itself.
func applied(t *rapid.T, c *client.Client) *Plan {
	plan, err := exported(t, c).Compare(context.Background(), c, Options{Set: "default", Prune: true})
	if err != nil {
		t.Fatal(err)
	}
	done, err := plan.Apply(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	plan.Steps = done
	return plan
}

func copied(t *rapid.T, from, to *client.Client) {
	plan, err := exported(t, from).Compare(context.Background(), to, Options{Set: "default"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plan.Apply(context.Background()); err != nil {
		t.Fatal(err)
	}
}

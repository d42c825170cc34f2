package trial

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/chaos"
	"github.com/axd-project/axd/chaos/process"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// What tested nothing is no pass.
func TestVerdicts(t *testing.T) {
	acted := FaultRecord{Text: "a fault", Acted: "it did", Recovered: true, Recovery: time.Second, Bound: 2 * time.Second}
	for name, tc := range map[string]struct {
		change func(*FaultRecord)
		calls  int
		want   Verdict
	}{
		"all is well":           {func(*FaultRecord) {}, 100, Held},
		"a fault did not act":   {func(f *FaultRecord) { f.Acted = "" }, 100, Untested},
		"too few calls":         {func(*FaultRecord) {}, 3, Untested},
		"it took too long":      {func(f *FaultRecord) { f.Recovery = 3 * time.Second }, 100, Violated},
		"it never recovered":    {func(f *FaultRecord) { f.Recovered = false }, 100, Violated},
		"not waited for writes": {func(f *FaultRecord) { f.Recovered, f.Recovery = false, 0 }, 100, Held},
	} {
		f := acted
		tc.change(&f)
		st := &stage{faults: []*Fault{{is: f}}}
		r := &Result{Began: began, Ended: began.Add(20 * time.Second), Acknowledged: tc.calls}
		st.judgeFaults(r)
		r.settle()
		if r.Verdict != tc.want {
			t.Errorf("%s: %s, want %s (%v %v)", name, r.Verdict, tc.want, r.Violations, r.Doubts)
		}
	}
	r := &Result{Began: began, Ended: began}
	(&stage{}).judgeFaults(r)
	if r.settle(); r.Verdict != Untested {
		t.Errorf("without a fault: %s", r.Verdict)
	}
}

func TestTheReportsVerdict(t *testing.T) {
	for want, list := range map[Verdict][][]Verdict{
		Held:     {{Held}, {Held, Skipped}},
		Untested: {{Untested, Held}, {Skipped}, {}},
		Violated: {{Held, Untested, Violated}},
	} {
		for _, verdicts := range list {
			var r Report
			for _, v := range verdicts {
				r.Results = append(r.Results, &Result{Verdict: v})
			}
			if got := r.Verdict(); got != want {
				t.Errorf("%v: %s, want %s", verdicts, got, want)
			}
		}
	}
}

func aReport() *Report {
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	kill := Fault{is: FaultRecord{Text: "kill -9", From: at(3), Until: at(9), Acted: "yes", Recovered: true, Recovery: 1500 * time.Millisecond}}
	broken := &Result{
		Scenario: "kill-leader", Group: "servers", Verdict: Violated, Began: began, Ended: at(20), Violations: []string{"task <b> & more\nis missing"},
		Faults:  []FaultRecord{kill.get()},
		Leaders: []Leader{{At: at(1), Term: 2, Leader: "s1"}, {At: at(5), Term: 3, Leader: "s2"}}, Gaps: []Span{{From: at(3), Until: at(5)}},
		Lateness: []Late{{At: at(2), MS: 1.5, Quiet: true}, {At: at(6), MS: 900}},
	}
	results := []*Result{broken}
	for _, v := range []Verdict{Held, Untested, Skipped} {
		results = append(results, &Result{Scenario: "one-" + string(v[0]), Verdict: v, Began: began, Ended: at(5), Doubts: []string{"why"}})
	}
	return &Report{Bin: "/bin/axd", Seed: 7, Began: began, Ended: at(60), Results: results}
}

func TestReportsAreWellFormed(t *testing.T) {
	dir := t.TempDir()
	if err := aReport().Write(dir); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	var suites junitSuites
	if err := xml.Unmarshal(read(junitFile), &suites); err != nil {
		t.Fatal(err)
	}
	if s := suites.Suite; s.Tests != 4 || s.Failures != 1 || s.Errors != 1 || s.Skipped != 1 || s.Cases[0].Failure.Message != "task <b> & more" {
		t.Errorf("%+v", s)
	}
	var back struct {
		Verdict   Verdict
		Scenarios []struct {
			Faults []struct {
				Recovery float64 `json:"recovery_seconds"`
			}
		}
	}
	if err := json.Unmarshal(read(jsonFile), &back); err != nil || back.Verdict != Violated || back.Scenarios[0].Faults[0].Recovery == 0 {
		t.Errorf("%+v, %v", back, err)
	}
	page := string(read(htmlFile))
	for _, want := range []string{"kill -9", "s2 leads in term 3", "no write accepted for 2s", "task &lt;b&gt; &amp; more", `class="violated"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, loaded := range []string{"http:", "https:", "src=", "@import", "<script"} {
		if strings.Contains(page, loaded) {
			t.Errorf("the page may not open without a network: it has %q", loaded)
		}
	}
}

// judged collects what a judge finds.
func judged(judge func(broken func(string, ...any))) string {
	var found []string
	judge(func(format string, _ ...any) { found = append(found, format) })
	return strings.Join(found, "\n")
}

func TestCallbacksAreJudged(t *testing.T) {
	const task = "01TASK"
	delivered := fsm.Callback{State: fsm.CallbackDelivered}
	taken := Delivery{ID: "d", Task: task, State: "success", Taken: true}
	for want, change := range map[string]func(*history){
		"":                        func(*history) {},
		"no callback is recorded": func(h *history) { h.callbacks = nil },
		"its receiver took none":  func(h *history) { h.deliveries[0].Taken = false },
		"in the end it is":        func(h *history) { h.deliveries[0].State = "failed" },
		"was told as":             func(h *history) { h.deliveries = append(h.deliveries, Delivery{ID: "e", Task: task, State: "success"}) },
		"is %s in the end":        func(h *history) { h.callbacks[task] = fsm.Callback{State: fsm.CallbackOwed} },
	} {
		h := &history{hooks: map[string]bool{task: true}, callbacks: map[string]fsm.Callback{task: delivered}, deliveries: []Delivery{taken}}
		h.Dumps = []chaos.Dump{{Tasks: map[string]fsm.Task{task: {State: job.Success}}}}
		change(h)
		if got := judged(h.judgeCallbacks); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}

func TestFiresAreJudged(t *testing.T) {
	id := func(n byte) job.ID { return job.ID{n} }
	for want, change := range map[string]func(*history){
		"":                      func(*history) {},
		"has not fired":         func(h *history) { h.fires = nil },
		"has a verdict for":     func(h *history) { h.fires["s"][1].Nominal += 1000 },
		"and it is missing":     func(h *history) { delete(h.Dumps[0].Tasks, id(2).String()) },
		"stands for %s and for": func(h *history) { h.fires["s"][1].Task = id(1) },
	} {
		h := &history{every: map[string]time.Duration{"s": time.Second}, fires: map[string][]fsm.Fire{"s": {
			{Nominal: 1000, Verdict: fsm.VerdictFired, Task: id(1)}, {Nominal: 2000, Verdict: fsm.VerdictFired, Task: id(2)},
			{Nominal: 3000, Until: 5000, Count: 3, Verdict: fsm.VerdictMissed}, {Nominal: 6000, Verdict: fsm.VerdictFired, Task: id(3)},
		}}}
		h.Dumps = []chaos.Dump{{Tasks: map[string]fsm.Task{id(1).String(): {}, id(2).String(): {}, id(3).String(): {}}}}
		change(h)
		if got := judged(h.judgeFires); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}

func TestRunsAreJudged(t *testing.T) {
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	for want, change := range map[string]func(*history){
		"":                    func(*history) {},
		"is missing":          func(h *history) { h.started = append(h.started, "other") },
		"at the end":          func(h *history) { h.Dumps[0].Runs["r"] = chaos.RunDump{State: job.RunRunning} },
		"began before %s had": func(h *history) { h.Attempts[1].Start = at(1) },
	} {
		h := &history{started: []string{"r"}}
		h.Dumps = []chaos.Dump{{
			Tasks: map[string]fsm.Task{"a": {}, "b": {}},
			Runs: map[string]chaos.RunDump{"r": {State: job.RunSuccess, Steps: []chaos.StepDump{
				{Name: "one", Tasks: []string{"a"}}, {Name: "two", Needs: []string{"one"}, Tasks: []string{"b"}},
			}}},
		}}
		h.Attempts = []chaos.Attempt{{Task: "a", Start: at(0), End: at(2), OK: true}, {Task: "b", Start: at(3), End: at(4), OK: true}}
		change(h)
		if got := judged(h.judgeRuns); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}

// The commands of tasks tell of their starts and ends, and of a command that was
// killed the kernel does.
func TestAttemptsAreRecorded(t *testing.T) {
	a, err := newAttempts(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	const token = "000000010000000000000002"
	run := func(number, work string) *exec.Cmd {
		cmd := exec.Command("sh", "-c", script, "attempt", a.path, work, "1")
		cmd.Env = append(os.Environ(), "AXD_TASK_ID=T", "AXD_ATTEMPT="+number, "AXD_FENCING_TOKEN="+token+"0000000"+number, "AXD_WORKER=w",
			"AXD_EXECUTE_TIME=2026-03-01T12:00:00Z")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	recorded := func(n int) []chaos.Attempt {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if list, err := a.list(); err != nil {
				t.Fatal(err)
			} else if len(list) == n && (list[n-1].OK || !list[n-1].End.IsZero() || n == 3) {
				return list
			}
		}
		t.Fatalf("there are not %d attempts", n)
		return nil
	}
	if run("1", "0").Wait() == nil {
		t.Error("the first attempt was to fail")
	}
	recorded(1)
	if err := run("2", "0").Wait(); err != nil {
		t.Error(err)
	}
	recorded(2)
	last := run("3", "60")
	if list := recorded(3); list[0].OK || !list[1].OK || list[1].End.IsZero() || !list[2].End.IsZero() || !list[0].Due.Equal(began) {
		t.Errorf("%+v", list)
	}
	_ = last.Process.Kill()
	_ = last.Wait()
	if list, _ := a.list(); list[2].End.IsZero() || list[2].OK {
		t.Errorf("a killed command is recorded as %+v", list[2])
	}
}

func TestAPlainBuildHasNoClockHook(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if has, err := hasClockHook(self); err != nil || has {
		t.Errorf("%v, %v", has, err)
	}
}

func TestScenariosAreNamedOnce(t *testing.T) {
	seen, short := map[string]bool{}, 0
	for _, s := range All() {
		if seen[s.Name] || job.ValidateName("scenario", s.Name) != nil || s.Summary == "" || s.Group == "" || s.play == nil {
			t.Errorf("%+v", s)
		}
		seen[s.Name] = true
		if s.Short {
			short++
		}
	}
	if short != 6 {
		t.Errorf("%d short scenarios", short)
	}
	if _, err := Find([]string{"none-such"}); err == nil {
		t.Error("an unknown scenario was taken")
	}
}

func TestWhatServersHoldIsJudged(t *testing.T) {
	metrics := "# TYPE go_goroutines gauge\ngo_goroutines 200\nprocess_open_fds 60\nprocess_resident_memory_bytes 1e+08\nother{a=\"b\"} 7\n"
	read := func(text string) (Holding, error) {
		m, err := process.ParseMetrics(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return pickHolding(m)
	}
	before, err := read(metrics)
	if err != nil || before != (Holding{Goroutines: 200, Files: 60, Bytes: 100_000_000}) {
		t.Fatalf("%+v, %v", before, err)
	}
	if _, err := read("go_goroutines 200\n"); err == nil {
		t.Error("a metric that is missing is not told")
	}
	for want, change := range map[string]func(h *Holding){
		"":                func(h *Holding) { h.Goroutines, h.Files, h.Bytes = 280, 120, 400_000_000 },
		"281 goroutines":  func(h *Holding) { h.Goroutines = 281 },
		"121 open files":  func(h *Holding) { h.Files = 121 },
		"bytes of memory": func(h *Holding) { h.Bytes = 500_000_000 },
	} {
		after, r := before, &Result{}
		change(&after)
		r.judgeHoldings([]Holding{before, {}}, []Holding{before, after})
		if found := strings.Join(r.Violations, "\n"); !strings.Contains(found, want) || want == "" && found != "" {
			t.Errorf("servers that hold too much (%q): %q", want, found)
		}
	}
}

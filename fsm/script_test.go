package fsm

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/axd-project/axd/job"
)

// TestScripts runs testdata/*.txt: verbs in, golden state out. Each command is
// an entry of its own, but for those inside batch. Times are shown from the
// script's begin, tasks by the order of their creation. To refresh the golden
// output: go test ./fsm -rewrite.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if !strings.HasSuffix(path, ".txt") {
			return
		}
		e := newScriptEnv()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return e.run(t, d)
		})
	})
}

const scriptStart int64 = 1_700_000_000_000

type scriptEnv struct {
	tx    *memTx
	m     *Machine
	index uint64
	term  uint64
	now   int64
	ids   []job.ID // t1, t2, ...
	page  string   // the last next cursor
	runs  []RunRef // as of the last dump
}

func newScriptEnv() *scriptEnv {
	return &scriptEnv{tx: newMemTx(), m: NewMachine(), term: 1, now: scriptStart}
}

// fields are the name=value words of a script's line.
type fields map[string]string

func parseFields(words []string) fields {
	f := fields{}
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			value = "true"
		}
		f[name] = value
	}
	return f
}

func (f fields) or(name, value string) string {
	if v, ok := f[name]; ok {
		return v
	}
	return value
}

func (f fields) ns() string { return f.or("ns", "default") }

func (f fields) list(name string) []string {
	return strings.FieldsFunc(f[name], func(r rune) bool { return r == ',' })
}

func (f fields) number(name string) int64 {
	n, err := strconv.ParseInt(f.or(name, "0"), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func (f fields) duration(name string) job.Duration {
	d, err := time.ParseDuration(f.or(name, "0"))
	if err != nil {
		panic(err)
	}
	return job.Duration(d)
}

// time reads +5s as five seconds after the script's start.
func (f fields) time(name string) int64 {
	if f[name] == "" {
		return 0
	}
	return scriptStart + f.duration(name).Milliseconds()
}

func (e *scriptEnv) run(t *testing.T, d *datadriven.TestData) string {
	var words []string
	for _, a := range d.CmdArgs {
		words = append(words, strings.TrimSuffix(a.String(), "=[]"))
	}
	f := parseFields(words)
	switch d.Cmd {
	case "advance":
		e.now += f.duration("by").Milliseconds()
		return fmt.Sprintf("now %s\n", e.at(e.now))
	case "set-back": // a leader whose clock is behind
		e.now -= f.duration("by").Milliseconds()
		return fmt.Sprintf("now %s\n", e.at(e.now))
	case "term":
		e.term = uint64(f.number("to"))
		return ""
	case "restart":
		e.m = NewMachine()
		return ""
	case "replay":
		return e.replay()
	case "batch":
		var commands []Command
		for _, line := range strings.Split(d.Input, "\n") {
			w := strings.Fields(line)
			g := parseFields(w[1:])
			commands = append(commands, e.sent(g, e.command(w[0], g, "")))
		}
		return e.apply(commands)
	case "raw":
		return e.raw(d.Input)
	}
	if out, ok := e.query(d.Cmd, f); ok {
		return out
	}
	return e.apply([]Command{e.sent(f, e.command(d.Cmd, f, d.Input))})
}

// replay applies the last entry's index again.
func (e *scriptEnv) replay() string {
	b, _ := EncodeEntry(Entry{At: e.now})
	results, events, err := e.m.Apply(e.tx, Meta{Index: e.index, Term: e.term}, b)
	return fmt.Sprintf("results %v, events %v, error %v\n", results, events, err)
}

// raw applies an entry of one command in hexadecimal.
func (e *scriptEnv) raw(input string) string {
	var b []byte
	if _, err := fmt.Sscanf(strings.ReplaceAll(input, " ", ""), "%x", &b); err != nil {
		panic(err)
	}
	return e.applyEncoded([][]byte{b})
}

func (e *scriptEnv) apply(commands []Command) string {
	var encoded [][]byte
	for _, c := range commands {
		b, err := EncodeCommand(c)
		if err != nil {
			return err.Error() + "\n"
		}
		encoded = append(encoded, b)
	}
	return e.applyEncoded(encoded)
}

func (e *scriptEnv) applyEncoded(commands [][]byte) string {
	entry, err := EncodeEntry(Entry{At: e.now, Commands: commands})
	if err != nil {
		panic(err)
	}
	e.index++
	results, events, err := e.m.Apply(e.tx, Meta{Index: e.index, Term: e.term}, entry)
	if err != nil {
		return "the node stops: " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, r := range results {
		e.showResult(&b, r)
	}
	for _, ev := range events {
		e.showEvent(&b, ev)
	}
	for _, p := range Check(e.tx, 10) {
		fmt.Fprintf(&b, "BROKEN: %s\n", p)
	}
	if b.Len() == 0 {
		return "ok\n"
	}
	return b.String()
}

// ref reads t3 as the third task that the script created.
func (e *scriptEnv) ref(f fields) TaskRef {
	n, err := strconv.Atoi(strings.TrimPrefix(f["task"], "t"))
	if err != nil || n < 1 || n > len(e.ids) {
		return TaskRef{f.ns(), job.NewID(1, 1, 1)}
	}
	return TaskRef{f.ns(), e.ids[n-1]}
}

func (e *scriptEnv) task(f fields) Task {
	t, _ := GetTask(e.tx, e.ref(f))
	return t
}

// attemptRef takes the current token, unless the line names one as index.offset.
func (e *scriptEnv) attemptRef(f fields) AttemptRef {
	ref := AttemptRef{e.ref(f), e.task(f).Token}
	if s, ok := f["token"]; ok {
		if _, err := fmt.Sscanf(s, "%d.%d", &ref.Token.Index, &ref.Token.Offset); err != nil {
			panic(err)
		}
	}
	return ref
}

func (e *scriptEnv) attemptRefs(f fields) []AttemptRef {
	var refs []AttemptRef
	for _, name := range strings.Split(f["task"], ",") {
		g := fields{"task": name, "ns": f.ns()}
		if token, ok := f["token"]; ok {
			g["token"] = token
		}
		refs = append(refs, e.attemptRef(g))
	}
	return refs
}

func (e *scriptEnv) name(id job.ID) string {
	i := slices.Index(e.ids, id)
	if i < 0 {
		e.ids = append(e.ids, id)
		i = len(e.ids) - 1
	}
	return fmt.Sprintf("t%d", i+1)
}

func (e *scriptEnv) at(ms int64) string {
	return fmt.Sprintf("%+v", time.Duration(ms-scriptStart)*time.Millisecond)
}

func (e *scriptEnv) outcome(name string) job.Outcome {
	for o := job.OutcomeSuccess; o <= job.OutcomeRefused; o++ {
		if o.String() == name {
			return o
		}
	}
	return 0
}

// query answers the commands that change nothing.
func (e *scriptEnv) query(cmd string, f fields) (string, bool) {
	var b strings.Builder
	switch cmd {
	case "list":
		e.list(&b, f)
	case "task":
		t := e.task(f)
		e.showTask(&b, &t)
	case "attempts":
		for _, a := range ListAttempts(e.tx, e.ref(f)) {
			e.showAttempt(&b, &a)
		}
	case "active":
		for _, a := range ListActive(e.tx, f["worker"], 100) {
			fmt.Fprintf(&b, "%s: %s attempt %d, token %s, boot %s, running %v\n",
				a.Worker, e.name(a.Ref.ID), a.Attempt, e.token(a.Token), a.Boot, a.Running)
		}
	case "jobs":
		jobs, next, err := ListJobs(e.tx, f["ns"], e.cursor(f), int(f.number("limit")))
		for _, j := range jobs {
			fmt.Fprintf(&b, "%s/%s version %d created %s updated %s", j.Namespace, j.Name, j.Version, e.at(j.Created), e.at(j.Updated))
			if j.FileSet != "" {
				fmt.Fprintf(&b, " file set %s", j.FileSet)
			}
			b.WriteString("\n")
		}
		e.showNext(&b, next, err)
	case "breakers":
		for _, k := range ListBreakers(e.tx) {
			e.showBreaker(&b, k)
			fmt.Fprintf(&b, ", %d failures: %s\n", k.Failures, k.Error)
		}
	case "settings":
		s := ReadSettings(e.tx)
		fmt.Fprintf(&b, "suspend low %v, high slots %d%%\n", s.SuspendLowOrDefault(), s.HighSlotsOrDefault())
	case "workers":
		workers, next, err := ListWorkers(e.tx, e.cursor(f), int(f.number("limit")))
		for _, w := range workers {
			fmt.Fprintf(&b, "%+v\n", w)
		}
		e.showNext(&b, next, err)
	case "scan-due":
		for _, row := range ScanDue(e.tx, job.Normal, DueKey{}, e.now+1, 100) {
			fmt.Fprintf(&b, "%s due %s retry %v\n", e.name(row.ID), e.at(row.Due), row.Retry)
		}
	case "count":
		e.showCounts(&b, f)
	case "info":
		i := ReadInfo(e.tx)
		fmt.Fprintf(&b, "cluster %q level %d format %d applied %d clock %s epoch %d\n",
			i.ClusterID, i.FeatureLevel, i.Format, i.Applied, e.at(i.Clock), i.RestoreEpoch)
	case "body":
		t := e.task(f)
		body, _ := BodyOf(e.tx, &t)
		fmt.Fprintf(&b, "%s\n", e.nameIDs(string(body.Payload)))
	case "dead":
		e.listDead(&b, f)
	case "callbacks", "callback-body", "due-callbacks":
		e.showCallbacks(&b, cmd, f)
	case "done", "parts":
		e.showExtra(&b, cmd, f)
	case "secrets":
		e.showSecrets(&b, f)
	case "alerts":
		e.showAlerts(&b, f)
	case "events":
		e.showEvents(&b, f)
	case "audit":
		e.showAudit(&b, f)
	case "dump":
		e.dump(&b, f)
	default:
		if !e.runQuery(&b, cmd, f) && !e.scheduleQuery(&b, cmd, f) {
			return "", false
		}
	}
	if b.Len() == 0 {
		return "none\n", true
	}
	return b.String(), true
}

// cursor reads cursor=next as the one that the last page answered.
func (e *scriptEnv) cursor(f fields) string {
	switch c := f["cursor"]; c {
	case "next":
		return e.page
	case "foreign":
		return base64.RawURLEncoding.EncodeToString([]byte{cursorVersion, tableEnded, 0})
	default:
		return c
	}
}

func (e *scriptEnv) list(b *strings.Builder, f fields) {
	p, err := ListTasks(e.tx, TaskFilter{
		Namespace: f["ns"], State: job.Shown(f["state"]), Job: f["job"], Worker: f["worker"],
		App: f["app"], Owner: f["owner"], DueFrom: f.time("from"), DueTo: f.time("to"),
	}, e.cursor(f), int(f.number("limit")), e.now)
	for i := range p.Tasks {
		t := &p.Tasks[i]
		fmt.Fprintf(b, "%s %s", e.name(t.ID), job.Show(t.State, t.Due, t.Retry, e.now))
		if t.State == job.Pending {
			fmt.Fprintf(b, " due %s %s", e.at(t.Due), t.Policy.Priority)
		}
		fmt.Fprintln(b)
	}
	e.showNext(b, p.Next, err)
}

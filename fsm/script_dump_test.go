package fsm

import (
	"fmt"
	"strings"

	"github.com/axd-project/axd/job"
)

// dump shows the keys of all tables, or of one, in words.
func (e *scriptEnv) dump(b *strings.Builder, f fields) {
	e.runs = e.runRefs()
	e.tx.Ascend([]byte{tableMeta}, nil, func(k, v []byte) bool {
		line := e.describe(k, v)
		// Most scripts are not about who did it.
		if want := f["table"]; want == "" && !strings.HasPrefix(line, "audit") || want != "" && strings.HasPrefix(line, want) {
			fmt.Fprintln(b, line)
		}
		return true
	})
}

func (e *scriptEnv) describe(k, v []byte) string {
	r := readKey(k)
	switch k[0] {
	case tableMeta:
		if k[1] != metaLow {
			return fmt.Sprintf("meta %c", k[1])
		}
		return fmt.Sprintf("meta low %s", job.Priority(k[2]))
	case tableJobs:
		return fmt.Sprintf("job %s/%s", r.name(), r.name())
	case tableJobVersions:
		return fmt.Sprintf("job-version %s/%s %d", r.name(), r.name(), r.u64())
	case tableTasks, tableBodies:
		ref := r.ref()
		return fmt.Sprintf("%s %s/%s", map[byte]string{tableTasks: "task", tableBodies: "body"}[k[0]], ref.Namespace, e.name(ref.ID))
	case tableDue:
		p := job.Priority(r.u8())
		d := r.due()
		return fmt.Sprintf("due %s %s %s/%s", p, e.at(d.Due), d.Namespace, e.name(d.ID))
	case tableByState:
		return fmt.Sprintf("by-state %s %s %s", r.name(), job.State(r.u8()), e.name(r.id()))
	case tableByJob:
		return fmt.Sprintf("by-job %s %s %s", r.name(), r.name(), e.name(r.id()))
	case tableCounters:
		return fmt.Sprintf("counter %q", k[1:])
	case tableAttempts:
		ref := r.ref()
		return fmt.Sprintf("attempt %s/%s %d", ref.Namespace, e.name(ref.ID), r.u32())
	case tableWorkers:
		return fmt.Sprintf("worker %s", r.name())
	case tableActive:
		w := r.name()
		ref := r.ref()
		return fmt.Sprintf("active %s %s/%s", w, ref.Namespace, e.name(ref.ID))
	case tableKeys:
		return fmt.Sprintf("key %s %q", r.name(), r.name())
	case tableEnded:
		at := r.time()
		ref := r.ref()
		return fmt.Sprintf("ended %s %s/%s", e.at(at), ref.Namespace, e.name(ref.ID))
	}
	for _, describe := range []func([]byte) (string, bool){e.describeDead, e.describeAlert, e.describeCallback, e.describeSchedule, e.describeRun, e.describeAudit, e.describeEvent, e.describeJoin} {
		if out, ok := describe(k); ok {
			return out
		}
	}
	if out, ok := e.describeLimit(k, v); ok {
		return out
	}
	r = readKey(k)
	switch k[0] {
	case tableSecrets:
		return fmt.Sprintf("secret %s/%s", r.name(), r.name())
	case tableOnce, tableBroadcastActs:
		return fmt.Sprintf("%s %s", map[byte]string{tableOnce: "done", tableBroadcastActs: "broadcast-act"}[k[0]], e.name(r.ref().ID))
	case tableParts:
		of := r.ref()
		return fmt.Sprintf("part of %s at %s", e.name(of.ID), r.name())
	}
	return fmt.Sprintf("unknown %x", k)
}

func (e *scriptEnv) showBreaker(b *strings.Builder, k Breaker) {
	fmt.Fprintf(b, " %s", strings.Join(strings.Fields(strings.Join([]string{k.Kind, k.Worker, k.Job, k.Target}, " ")), " "))
	if k.OpenUntil == 0 {
		b.WriteString(" closed")
	} else {
		fmt.Fprintf(b, " open until %s, opened %d", e.at(k.OpenUntil), k.Opened)
	}
}

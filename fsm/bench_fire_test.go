package fsm

import (
	"fmt"
	"testing"

	"github.com/axd-project/axd/job"
)

// BenchmarkFire fires schedules of their own, each once.
func BenchmarkFire(b *testing.B) {
	x := newBench(b)
	x.loop(func() []Command {
		var put []Command
		for i := range benchPerEntry {
			put = append(put, PutSchedule{
				Namespace: "default", Name: fmt.Sprint("s-", x.index, "-", i),
				Spec: job.ScheduleSpec{Job: "mail", Cron: "0 2 * * *", Payload: benchPayload},
			})
		}
		x.apply(put)
		fire := FireSchedules{}
		for _, p := range put {
			ref := ScheduleRef{"default", p.(PutSchedule).Name}
			st, ok := GetScheduleState(x.tx, ref)
			if !ok {
				b.Fatal("no schedule")
			}
			at := x.now + 1000
			fire.Items = append(fire.Items, FireItem{
				Ref: ref, Generation: st.Generation, Cursor: st.Cursor,
				Times: []FireTime{{Nominal: at, Due: at}}, Next: at + 60_000, NextAt: at + 60_000,
			})
		}
		return []Command{fire}
	})
}

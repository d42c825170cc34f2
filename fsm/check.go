package fsm

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/axd-project/axd/job"
)

// Check tells every broken invariant of a state, at most limit of them. It
// reads the whole state once and holds little of it in memory: a number for
// each counter.
func Check(r Reader, limit int) []string {
	c := &checker{r: r, limit: limit, counts: map[string]int64{}, runTasks: map[RunRef]int{}, parts: map[TaskRef]partTally{}, fired: map[ScheduleRef]scheduleTally{}, running: map[ScheduleRef]int{}}
	if err := CheckFormat(r); err != nil {
		return []string{err.Error()}
	}
	c.clock = readMeta(r).Clock
	c.rows(tableJobs, c.job)
	c.rows(tableJobVersions, c.jobVersion)
	c.rows(tableSchedules, c.schedule)
	c.rows(tableScheduleStates, c.scheduleState)
	c.rows(tableScheduleDue, c.scheduleDueRow)
	c.rows(tableCalendars, c.calendar)
	c.rows(tableCalendarUses, c.calendarUse)
	c.rows(tableFires, c.fire)
	c.rows(tableFireAge, c.fireAge)
	c.rows(tableFireQueue, c.fireQueued)
	c.rows(tableTasks, c.task)
	c.rows(tableBodies, c.body)
	c.rows(tableDue, c.due)
	c.rows(tableByState, c.byState)
	c.rows(tableByJob, c.byJob)
	c.rows(tableAttempts, c.attempt)
	c.rows(tableWorkers, c.worker)
	c.rows(tableActive, c.active)
	c.rows(tableKeys, c.idempotency)
	c.rows(tableEnded, c.ended)
	c.rows(tableUnique, c.unique)
	c.rows(tableDeadlines, c.deadline)
	c.rows(tableDead, c.dead)
	c.rows(tableDeadByJob, c.deadByJob)
	c.rows(tableDeadAge, c.deadAge)
	c.rows(tableDeadActs, c.deadAct)
	c.rows(tableDeadActsEnded, c.deadActEnded)
	c.rows(tableLimits, c.heldLimit)
	c.rows(tableHolders, c.holder)
	c.rows(tableRates, c.rate)
	c.rows(tableRateAge, c.rateAge)
	c.rows(tableAlerts, c.alert)
	c.rows(tableSecrets, c.secret)
	c.rows(tableOnce, c.once)
	c.rows(tableParts, c.part)
	c.rows(tableBroadcastActs, c.broadcastAct)
	c.partTallies()
	c.rows(tableAlertAge, c.alertAge)
	c.rows(tableBreakers, c.breaker)
	c.rows(tableCallbacks, c.callback)
	c.rows(tableCallbackDue, c.callbackDue)
	c.rows(tableCallbackState, c.callbackState)
	c.rows(tableCallbackAge, c.callbackAge)
	c.rows(tableListFetches, c.listFetch)
	c.rows(tableListFetchDue, c.listFetchDue)
	c.runTables()
	c.firedTallies()
	c.rows(tableRelations, c.relation)
	c.rows(tableEvents, c.sentEvent)
	c.rows(tableEventAux, c.eventAux)
	c.joinTables()
	c.rows(tableBackfills, c.backfill)
	c.rows(tableBackfillAux, c.backfillAux)
	c.backfillTallies()
	c.rows(tableAudit, c.audit)
	c.rows(tableAuditBy, c.auditBy)
	c.counters()
	c.lowMarks()
	return c.problems
}

type checker struct {
	r        Reader
	limit    int
	clock    int64
	problems []string
	breakers int
	fired    map[ScheduleRef]scheduleTally
	running  map[ScheduleRef]int // backfills
	lastFire Fire
	counts   map[string]int64 // counted from tableTasks, by key of tableCounters
	runTasks map[RunRef]int   // tasks by run
	parts    map[TaskRef]partTally
}

func (c *checker) full() bool { return len(c.problems) >= c.limit }

func (c *checker) report(format string, args ...any) {
	if !c.full() {
		c.problems = append(c.problems, fmt.Sprintf(format, args...))
	}
}

// want reports a broken rule unless ok.
func (c *checker) want(ok bool, format string, args ...any) {
	if !ok {
		c.report(format, args...)
	}
}

// rows calls fn for each row of a table. The reader is free during the call.
func (c *checker) rows(table byte, fn func(k, v []byte)) {
	type row struct{ k, v []byte }
	lo := []byte{table}
	for !c.full() {
		var chunk []row
		c.r.Ascend(lo, tableEnd(table), func(k, v []byte) bool {
			chunk = append(chunk, row{bytes.Clone(k), bytes.Clone(v)})
			return len(chunk) < scanChunk
		})
		for _, row := range chunk {
			fn(row.k, row.v)
		}
		if len(chunk) < scanChunk {
			return
		}
		lo = append(chunk[len(chunk)-1].k, 0)
	}
}

// record decodes a row, and reports one that can't be decoded.
func record[T any](c *checker, k, v []byte) (row T, ok bool) {
	if err := decode(v, &row); err != nil {
		c.report("row %x: %v", k, err)
		return row, false
	}
	return row, true
}

func (c *checker) has(k key) bool {
	_, ok := c.r.Get(k)
	return ok
}

// taskOf reads the task that a row of another table belongs to.
func (c *checker) taskOf(what string, ref TaskRef) (Task, bool) {
	b, ok := c.r.Get(key{}.task(ref))
	if !ok {
		c.report("%s: task %s of namespace %s does not exist", what, ref.ID, ref.Namespace)
		return Task{}, false
	}
	return record[Task](c, key{}.task(ref), bytes.Clone(b))
}

func (c *checker) job(k, v []byte) {
	j, ok := record[Job](c, k, v)
	if !ok {
		return
	}
	c.want(bytes.Equal(k, key{}.job(j.Namespace, j.Name)), "job %s/%s: under the key %x", j.Namespace, j.Name, k)
	b, _ := c.r.Get(key{}.jobVersion(j.Namespace, j.Name, j.Version))
	c.want(bytes.Equal(b, v), "job %s/%s: differs from its version %d", j.Namespace, j.Name, j.Version)
	c.names(namedByJob(j.Namespace, j.Name, &j.Spec))
}

func (c *checker) jobVersion(k, v []byte) {
	j, ok := record[Job](c, k, v)
	if !ok {
		return
	}
	c.want(bytes.Equal(k, key{}.jobVersion(j.Namespace, j.Name, j.Version)), "job version %s/%s: under the key %x", j.Namespace, j.Name, k)
	newest, ok := c.r.Get(key{}.job(j.Namespace, j.Name))
	if !ok {
		c.report("job version %s/%s %d: the job does not exist", j.Namespace, j.Name, j.Version)
		return
	}
	if n, ok := record[Job](c, k, bytes.Clone(newest)); ok {
		c.want(j.Version <= n.Version && j.Version+MaxJobVersions > n.Version,
			"job version %s/%s %d: kept beside version %d", j.Namespace, j.Name, j.Version, n.Version)
	}
}

func (c *checker) body(k, v []byte) {
	ref := readKey(k).ref()
	record[Body](c, k, v)
	if t, ok := c.taskOf("body", ref); ok {
		c.want(t.HasBody, "body of task %s: the task says it has none", ref.ID)
	}
}

func (c *checker) due(k, v []byte) {
	row, ok := decodeDue(k, v)
	if !ok {
		c.report("due row %x: can't be read", k)
		return
	}
	t, ok := c.taskOf("due row", TaskRef{row.Namespace, row.ID})
	if ok {
		c.want(t.State == job.Pending && t.Due == row.Due && t.Retry == row.Retry && byte(t.Policy.Priority) == k[1] &&
			row.Hint == t.Hint(),
			"due row of task %s: the task is %v %v, due %d, retry %v", t.ID, t.Policy.Priority, t.State, t.Due, t.Retry)
	}
}

func (c *checker) byState(k, _ []byte) {
	kr := readKey(k)
	ns, state, id := kr.name(), job.State(kr.u8()), kr.id()
	c.want(kr.done(), "state row %x: can't be read", k)
	if t, ok := c.taskOf("state row", TaskRef{ns, id}); ok {
		c.want(t.State == state && state.Terminal(), "state row of task %s: %v, the task is %v", id, state, t.State)
	}
}

func (c *checker) byJob(k, _ []byte) {
	kr := readKey(k)
	ns, name, id := kr.name(), kr.name(), kr.id()
	c.want(kr.done(), "job row %x: can't be read", k)
	if t, ok := c.taskOf("job row", TaskRef{ns, id}); ok {
		c.want(t.Job == name, "job row of task %s: %q, the task says %q", id, name, t.Job)
	}
}

func (c *checker) worker(k, v []byte) {
	if w, ok := record[Worker](c, k, v); ok {
		c.want(bytes.Equal(k, key{}.worker(w.Name)), "worker %s: under the key %x", w.Name, k)
	}
}

func (c *checker) active(k, v []byte) {
	kr := readKey(k)
	worker := kr.name()
	ref := kr.ref()
	row, ok := decodeActive(v)
	c.want(ok && kr.done(), "active row %x: can't be read", k)
	c.want(c.has(key{}.worker(worker)), "active row of task %s: worker %s does not exist", ref.ID, worker)
	if t, ok := c.taskOf("active row", ref); ok {
		c.want(t.State.Active() && t.Worker == worker && t.Token == row.Token && t.Due == row.Due && t.Attempt == row.Attempt && t.Policy.Priority == row.Priority &&
			(t.State == job.Running) == row.Running,
			"active row of task %s at worker %s, attempt %d: the task is %v at %s, attempt %d",
			t.ID, worker, row.Attempt, t.State, t.Worker, t.Attempt)
	}
}

func (c *checker) idempotency(k, v []byte) {
	kr := readKey(k)
	ns, name := kr.name(), kr.name()
	row, ok := decodeKeyRow(v)
	c.want(ok && kr.done(), "idempotency key row %x: can't be read", k)
	if t, ok := c.taskOf("idempotency key", TaskRef{ns, row.ID}); ok {
		c.want(t.claimedKey() == name && t.KeyExpiry == row.Expiry, "idempotency key %q until %d: task %s has %q until %d",
			name, row.Expiry, t.ID, t.IdempotencyKey, t.KeyExpiry)
	}
}

func (c *checker) ended(k, _ []byte) {
	kr := readKey(k)
	at, ref := kr.time(), kr.ref()
	c.want(kr.done(), "ended row %x: can't be read", k)
	if t, ok := c.taskOf("ended row", ref); ok {
		c.want(t.State.Terminal() && !t.Dead && t.Run.IsZero() && t.retainFrom() == at, "ended row of task %s at %d: the task is %v, ended %d", t.ID, at, t.State, t.Ended)
	}
}

func (c *checker) alert(k, v []byte) {
	if t, ok := record[Alert](c, k, v); ok {
		c.want(bytes.Equal(k, key{}.alert(t.Kind, t.Subject)), "alert %s/%s: under the key %x", t.Kind, t.Subject, k)
		c.want(c.has(key{}.alertAge(t.Changed, t.Kind, t.Subject)), "alert %s/%s: has no row by age", t.Kind, t.Subject)
	}
}

func (c *checker) alertAge(k, _ []byte) {
	kr := readKey(k)
	at, kind, subject := kr.time(), kr.name(), kr.name()
	c.want(kr.done(), "alert age row %x: can't be read", k)
	b, _ := c.r.Get(key{}.alert(kind, subject))
	t, ok := record[Alert](c, k, bytes.Clone(b))
	c.want(ok && t.Changed == at, "alert age row of %s/%s at %d: the alert says %d", kind, subject, at, t.Changed)
}

// counters compares tableCounters with what was counted from the tasks.
func (c *checker) counters() {
	c.rows(tableCounters, func(k, v []byte) {
		n := decodeCounter(v)
		if k[1] == countDropped { // of what is gone
			return
		}
		c.want(n != 0 && n == c.counts[string(k)], "counter %q: %d, counted %d", k[1:], n, c.counts[string(k)])
		delete(c.counts, string(k))
	})
	for _, k := range slices.Sorted(maps.Keys(c.counts)) {
		c.report("counter %q: missing, counted %d", k[1:], c.counts[k])
	}
}

func (c *checker) lowMarks() {
	for _, p := range job.Priorities {
		low := readLow(c.r, p)
		table := key{tableDue, byte(p)}
		c.r.Ascend(table, prefixEnd(table), func(k, _ []byte) bool {
			c.want(bytes.Compare(low, k[dueSuffix:]) <= 0, "low mark of priority %v: %x, behind the first row %x", p, low, k)
			return false
		})
	}
}

package fsm

import "bytes"

// GetSchedule reads a schedule with its state.
func GetSchedule(r Reader, ref ScheduleRef) (Schedule, ScheduleState, bool) {
	s, ok := getRow[Schedule](r, key{}.schedule(ref))
	if !ok {
		return Schedule{}, ScheduleState{}, false
	}
	st, _ := getRow[ScheduleState](r, key{}.scheduleState(ref))
	return s, st, true
}

// ListSchedules reads a page of at most limit schedules by name; an empty namespace
// means all of them. A cursor that isn't one is an error.
func ListSchedules(r Reader, namespace, cursor string, limit int) (list []Schedule, next string, err error) {
	prefix := key{tableSchedules}
	if namespace != "" {
		prefix = prefix.name(namespace)
	}
	return listRows[Schedule](r, prefix, cursor, limit)
}

// GetScheduleState reads what changes of a schedule.
func GetScheduleState(r Reader, ref ScheduleRef) (ScheduleState, bool) {
	return getRow[ScheduleState](r, key{}.scheduleState(ref))
}

// CountSchedules returns the number of schedules of a namespace; empty: of all.
func CountSchedules(r Reader, namespace string) int64 {
	return readCounter(r, key{}.counter(countSchedules).name(namespace))
}

// FireFilter selects rows of a ledger. Empty fields don't filter.
type FireFilter struct {
	Verdict Verdict
	From    int64 // nominal time, Unix ms, inclusive; a span counts by its first
	To      int64 // exclusive
	// Of those that were fired: those whose time has not come by Now, or the others. A Now
	// of 0 takes both.
	Planned bool
	Now     int64
}

func (f *FireFilter) match(row *Fire) bool {
	switch {
	case f.Verdict == 0:
		return true
	case f.Verdict == VerdictFired && row.Verdict == VerdictFired && f.Now != 0:
		return f.Planned == (row.Due > f.Now)
	}
	return row.Verdict == f.Verdict
}

// ListFires reads a page of a schedule's ledger, the newest time first. A page may
// be short, even empty, while next is set. A cursor that isn't one is an error.
func ListFires(r Reader, ref ScheduleRef, f FireFilter, cursor string, limit int) (list []Fire, next string, err error) {
	limit = pageLimit(limit)
	prefix := key{}.fires(ref)
	span := keyRange{lo: prefix, hi: prefixEnd(prefix)}
	if f.To != 0 {
		span.lo = key(bytes.Clone(prefix)).newest(FireKey{Nominal: f.To - 1})
	}
	if f.From != 0 {
		span.hi = prefixEnd(key(bytes.Clone(prefix)).newest(FireKey{Nominal: f.From})[:len(prefix)+8])
	}
	if span, err = span.from(cursor); err != nil || bytes.Compare(span.lo, span.hi) >= 0 {
		return nil, "", err
	}
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	var last key
	looked := 0
	r.Ascend(span.lo, span.hi, func(k, v []byte) bool {
		if len(list) == limit || looked == ScanLimit {
			next = encodeCursor(last)
			return false
		}
		looked++
		last = append(last[:0], k...)
		var row Fire
		mustDecode(c, k, v, &row)
		if f.match(&row) {
			list = append(list, row)
		}
		return true
	})
	return list, next, nil
}

// GetFire reads one row of a schedule's ledger.
func GetFire(r Reader, ref ScheduleRef, at FireKey) (Fire, bool) {
	return getRow[Fire](r, key{}.fires(ref).newest(at))
}

// ScheduleDue is a row of the index of next times.
type ScheduleDue struct {
	At  int64 // Unix ms; 0: the leader is to say which time is next
	Ref ScheduleRef
}

// Compare orders rows as the index does.
func (d ScheduleDue) Compare(o ScheduleDue) int {
	switch {
	case d.At < o.At:
		return -1
	case d.At > o.At:
		return 1
	}
	return d.Ref.Compare(o.Ref)
}

// ScanScheduleDue reads up to limit rows of the index of next times, from one on and
// due before a time.
func ScanScheduleDue(r Reader, from ScheduleDue, before int64, limit int) []ScheduleDue {
	var rows []ScheduleDue
	lo := key{}.table(tableScheduleDue).time(from.At)
	if from.Ref != (ScheduleRef{}) {
		lo = lo.scheduleRef(from.Ref)
	}
	r.Ascend(lo, key{}.table(tableScheduleDue).time(before), func(k, _ []byte) bool {
		kr := readKey(k)
		rows = append(rows, ScheduleDue{At: kr.time(), Ref: kr.scheduleRef()})
		return len(rows) < limit
	})
	return rows
}

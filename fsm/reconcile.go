package fsm

// TaskOfKey reads the task that claimed an idempotency key last; also one whose
// window has passed, as long as it is kept. Keys that hold within a period aren't found.
func TaskOfKey(r Reader, namespace, k string) (Task, bool) {
	b, ok := r.Get(key{}.idempotency(namespace, k))
	if !ok {
		return Task{}, false
	}
	row, ok := decodeKeyRow(b)
	if !ok {
		damaged(key{}.idempotency(namespace, k))
	}
	return GetTask(r, TaskRef{Namespace: namespace, ID: row.ID})
}

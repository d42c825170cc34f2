// Package scheduler is the leader's loop: it learns from state which tasks come
// due, matches them with workers, has assignments committed and then sends
// them, and declares lost what a worker's ended lease leaves behind.
//
// One goroutine runs per leadership term and owns all memory; it starts from
// state, and everything it remembers can be rebuilt from state. Other parts
// speak to it through an inbox that never blocks them. A hint that doesn't fit
// the inbox is dropped and the loop rebuilds itself: that costs a moment, never
// a task.
//
// Where things live: scheduler.go the loop and its turn, inbox.go how others speak
// to it, due.go the near future (wheel and scan frontier), ready.go the queues of
// due tasks, match.go the choice of a worker, arm.go what is assigned ahead, place.go
// what is assigned as it is submitted, dispatch.go what workers are sent,
// workers.go what is remembered of them, sessions.go their connections, leases.go
// who may still be running something, lost.go whose attempts are lost or overdue,
// events.go what apply reports.
package scheduler

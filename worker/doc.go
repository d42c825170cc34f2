// Package worker runs attempts: commands, http calls and Go handlers, under a
// lease that it renews with the leader. A program imports it to offer handlers:
//
//	w, err := worker.New(worker.Config{Name: "w1", Join: []string{"127.0.0.1:7482"}})
//	w.Handle("resize", func(ctx context.Context, t worker.Task) ([]byte, error) { ... })
//	err = w.Run(ctx)
//
// # What ends an attempt
//
// Its own end, its time-out, a cancel, the end of the worker's lease, or the
// worker's stop. A command's process group gets TERM and, after the job's grace,
// KILL; what left the group is found too (see below). A handler's context ends,
// and its http request is broken off: neither can be killed from outside, so
// their effects need the fencing token as a guard.
//
// The lease is counted on CLOCK_BOOTTIME from when the answered heartbeat was
// sent. TERM comes a grace before its end, but not in its first half; KILL comes
// at its end. Jobs that say on_disconnect: continue are spared.
//
// # When an attempt starts
//
// At once if it is due. One that is due later is armed: it waits without a slot,
// and starts when the cluster's clock has certainly reached its time, by what the
// leader's messages prove of it. The lease must hold at that instant and a slot
// be free, else it is given back. What is armed starts in time though the leader
// has died.
//
// # The supervisor
//
// Commands belong to a small process of their own (SupervisorMain), which knows
// the lease. It kills them when the worker dies (its pipe ends), and when the
// worker hangs or can't reach the leader (no renewal comes). Those of jobs that say
// on_disconnect: continue it keeps for the worker's next life, which takes them over
// by a socket in the data directory. When the supervisor
// dies, the kernel kills the commands, and the worker what they left. It holds
// every process of a command: by its session and process group, as the reaper of
// orphans by a mark in their environment, and with a delegated cgroup v2 whatever
// they do. When a command's first process ends, what it left running is ended as
// well, within four seconds.
//
// # What is on disk
//
// With a data directory, each result stays in a journal until the leader has
// committed it (docs/design/006-worker-journal.md), and each command has a start
// lock, made before it runs. A worker that starts kills what its earlier life
// left, and reports as lost what has no result. Start locks are not synced: they
// matter only while processes of theirs may live.
//
// The package needs Linux.
package worker

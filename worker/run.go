package worker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/axd-project/axd/cluster"
)

const (
	lastDelivery = 3 * time.Second  // at a stop, for results to be acknowledged after the last attempt ended
	handlerGrace = 10 * time.Second // at a stop, longest wait for a handler after its context ended
	leaveTimeout = 2 * time.Second

	// After Hurry: about a second in all.
	hurryGrace    = 300 * time.Millisecond // from TERM to KILL
	hurryEnd      = 600 * time.Millisecond // for attempts to end
	hurryDelivery = 400 * time.Millisecond // for results and give-backs to be acknowledged
	hurryLeave    = 200 * time.Millisecond
)

// Run works until ctx ends, then drains: it takes no more, lets attempts finish
// for DrainTime, and gives back or ends the rest. Its errors tell why it could
// not start, that another worker of its name is connected (a *job.Error of code
// conflict), or which handlers did not return. Call it once.
func (w *Worker) Run(ctx context.Context) (err error) {
	if err := w.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.join(); err != nil {
		return err
	}
	if w.super != nil {
		if _, err := w.super.get(); err != nil {
			return err
		}
	}
	// The session outlives ctx: a drain needs it.
	sessions, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop, err := w.startTimers()
	if err != nil {
		return err
	}
	defer stop()
	w.resume()
	kept := make(chan error, 1)
	go func() { kept <- w.keepSession(sessions) }()
	var taken error
	select {
	case <-ctx.Done():
	case taken = <-kept:
		close(kept)
	}
	err = w.drain()
	cancel()
	return errors.Join(taken, err, <-kept)
}

// startTimers starts what acts by the clock: the start of armed attempts, and the
// watch over those that run.
func (w *Worker) startTimers() (stop func(), err error) {
	if w.alarm, err = newAlarm(w.cfg.Clock, w.injected); err != nil {
		return nil, err
	}
	if w.watch.alarm, err = newAlarm(w.cfg.Clock, w.injected); err != nil {
		w.alarm.close()
		return nil, err
	}
	var running sync.WaitGroup
	running.Go(w.startArmed)
	running.Go(w.keepWatch)
	return func() {
		w.alarm.close()
		w.watch.alarm.close()
		running.Wait()
	}, nil
}

// open takes the data directory and settles what an earlier life left there.
func (w *Worker) open() error {
	if w.cfg.Exec {
		w.super = &supervisors{argv: w.cfg.Supervisor, log: w.log, lease: w.leaseOrder, clock: w.cfg.Clock}
		if abs, err := filepath.Abs(w.cfg.DataDir); err == nil {
			w.super.dir = abs
		}
		w.web = newWebClient(w)
	}
	if w.cfg.DataDir == "" {
		return nil
	}
	dir, err := openDir(w.cfg.DataDir, w.cfg.Name)
	if err != nil {
		return err
	}
	w.dir, w.clusterName = dir, dir.owner.ClusterID
	if err := w.settlePast(); err != nil {
		return errors.Join(err, w.closeDir())
	}
	return nil
}

// settlePast settles what an earlier life left in the data directory.
func (w *Worker) settlePast() error {
	j, found, err := openJournal(w.dir.root, w.log)
	if err != nil {
		return err
	}
	w.journal = j
	go j.run()
	if found.damaged > 0 {
		w.log.Error("the journal of results is damaged: results may be lost", "bytes", found.damaged, "kept_as", j.path+brokenName)
	}
	past := findSupervisor(w.dir.root, w.log)
	left, err := w.dir.clearResidue(found, past.marks(), j.put)
	if err != nil {
		past.leave()
		return err
	}
	w.adopt(past, left.goesOn)
	for _, e := range left.owed {
		w.table.add(e)
	}
	if len(left.owed) > 0 || left.killed > 0 || len(left.goesOn) > 0 {
		w.log.Info("an earlier life of this worker is settled", "results", len(left.owed), "processes_killed", left.killed,
			"commands_go_on", len(left.goesOn))
	}
	return nil
}

func (w *Worker) closeDir() error {
	if w.journal != nil {
		w.journal.close()
	}
	return w.dir.close()
}

func (w *Worker) leaseOrder() renewOrder {
	w.lease.mu.Lock()
	defer w.lease.mu.Unlock()
	return renewOrder{Until: int64(w.lease.until), TTL: int64(w.lease.ttl)}
}

// join starts the gossip, where the worker finds servers and they see it.
func (w *Worker) join() error {
	if w.cfg.Servers != nil && w.cfg.Gossip == "" {
		return nil
	}
	bind := w.cfg.Gossip
	if bind == "" {
		bind = defaultGossip
	}
	c, err := cluster.Start(cluster.Config{
		Self: cluster.Member{
			Role: cluster.RoleWorker, Name: w.cfg.Name, Boot: w.boot, ClusterID: w.clusterName, Gossip: bind,
			Version: w.cfg.Version, Slots: w.cfg.Slots, Labels: w.cfg.Labels,
		},
		Bind: bind, Advertise: w.cfg.AdvertiseGossip, Join: w.cfg.Join, Logger: w.log, Foreign: w.onForeign(w.clusterName),
	})
	if err != nil {
		return fmt.Errorf("join the gossip: %w", err)
	}
	w.cluster, w.news = c, c.Changed()
	return nil
}

// drain lets attempts finish, ends the rest, and waits until the leader knows.
func (w *Worker) drain() error {
	running, armed := w.table.drain(), w.table.disarmAll()
	w.log.Info("draining", "running", len(running), "armed", len(armed), "limit", w.cfg.DrainTime)
	for _, a := range armed {
		w.giveBack(a.item.Ref, "the worker drains")
	}
	done := make(chan struct{})
	go func() {
		w.table.running.Wait()
		close(done)
	}()
	var err error
	if !waitFor(done, w.cfg.DrainTime, w.hurried) {
		for _, a := range w.table.drain() {
			w.table.stop(a, stopDrain)
		}
		err = w.awaitStopped(done, handlerGrace)
	}
	limit := w.unlessHurried(lastDelivery, hurryDelivery)
	for deadline := time.Now().Add(limit); w.table.counts().Owed > 0 && time.Now().Before(deadline); {
		time.Sleep(deliveryPoll)
	}
	if n := w.table.counts().Owed; n > 0 {
		w.log.Warn("results are not acknowledged yet", "results", n, "kept_on_disk", w.dir != nil)
	}
	return err
}

const deliveryPoll = 10 * time.Millisecond // between two looks at what is owed, at a stop

// awaitStopped waits for attempts that were told to stop. Commands are killed
// after their grace, so they end; a handler that doesn't return is named.
func (w *Worker) awaitStopped(done <-chan struct{}, limit time.Duration) error {
	var calls []string
	for _, a := range w.table.drain() {
		if a.executor.Kind() == "exec" {
			limit = max(limit, time.Duration(a.item.GraceMS)*time.Millisecond+leftoverGrace+2*leftoverLimit)
		} else {
			calls = append(calls, a.executor.Kind()+" "+a.executor.Handler)
		}
	}
	switch {
	case waitFor(done, limit, w.hurried), waitFor(done, w.unlessHurried(0, hurryEnd), nil):
		return nil
	case len(calls) > 0:
		return fmt.Errorf("did not return after their context ended: %s", strings.Join(calls, ", "))
	}
	return errors.New("commands could not be ended")
}

// Hurry cuts the drain of Run short: what still runs is ended and given back
// within about a second, and what can't be ended by then is left to the end of
// the process. Call it after Run's ctx ended, for a second signal. It returns at
// once.
func (w *Worker) Hurry() { w.hurryOnce.Do(func() { close(w.hurried) }) }

func (w *Worker) unlessHurried(usual, hurried time.Duration) time.Duration {
	select {
	case <-w.hurried:
		return hurried
	default:
		return usual
	}
}

// waitFor waits for done, at most limit and until broken is closed.
func waitFor(done <-chan struct{}, limit time.Duration, broken <-chan struct{}) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	case <-broken:
		return false
	}
}

// close ends what open and join began.
func (w *Worker) close() error {
	var errs []error
	if w.cluster != nil {
		ctx, cancel := context.WithTimeout(context.Background(), w.unlessHurried(leaveTimeout, hurryLeave))
		errs = append(errs, w.cluster.Leave(ctx))
		cancel()
	}
	if w.super != nil {
		w.super.close(len(w.adopted) > 0) // it has not come so far as to look after them
		w.web.close()
	}
	if w.dir != nil {
		errs = append(errs, w.closeDir())
	}
	return errors.Join(errs...)
}

// Stats counts what the worker did and holds.
func (w *Worker) Stats() Stats { return w.table.counts() }

// onForeign says once that servers were found that are not of the cluster whose
// results and attempts the data directory holds. Gossip refuses them, so all that
// shows otherwise is a worker that finds no server.
func (w *Worker) onForeign(own string) func(cluster.Member) {
	var told atomic.Bool
	return func(m cluster.Member) {
		if m.Role != cluster.RoleServer || told.Swap(true) {
			return
		}
		w.log.Error("a server was found that belongs to another cluster than this worker's data directory: give the worker the addresses "+
			"of its own cluster, or an empty data directory", "server", m.Name, "its_cluster", m.ClusterID, "own_cluster", own,
			"data_dir", w.cfg.DataDir)
	}
}

package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
	"github.com/axd-project/axd/store"
)

const (
	archiveDir    = "incoming"       // in the data directory: archives on their way in
	restoreTime   = 10 * time.Minute // for the state to be replaced, once the archive is here
	checkProblems = 20               // that are told of a broken state
)

// offer is an archive that the leader may fetch from here.
type offer struct {
	id      string
	archive *store.Archive
}

// SaveSnapshot implements api.Backend. What was acknowledged before the call is
// in it, whichever server is asked.
func (s *Server) SaveSnapshot(ctx context.Context, begin func(size int64) io.Writer) error {
	if err := s.untilLeader(ctx, func() error { return s.node.ReadBarrier(ctx) }); err != nil {
		return err
	}
	a, err := s.node.Archive()
	if err != nil {
		return err
	}
	defer func() {
		if err := a.Remove(); err != nil {
			s.log.Warn("removing a snapshot that was sent failed; the next start does", "error", err)
		}
	}()
	r, err := a.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(begin(a.Meta().Size), r)
	return errors.Join(err, r.Close())
}

// RestoreSnapshot implements api.Backend: it takes the archive in and checks all
// of it before the leader touches anything.
func (s *Server) RestoreSnapshot(ctx context.Context, r io.Reader, force bool) (client.Restored, error) {
	if !s.restore.TryLock() {
		return client.Restored{}, job.Errorf(job.CodeConflict, "another restore is under way on server "+s.cfg.Name)
	}
	defer s.restore.Unlock()
	a, err := s.takeArchive("given", r)
	if err != nil {
		return client.Restored{}, err
	}
	defer s.dropArchive(a)
	o := &offer{id: rand.Text(), archive: a}
	s.offered.Store(o)
	defer s.offered.Store(nil)
	var reply rpc.RestoreReply
	req := rpc.Restore{Address: s.cfg.advertiseRPC(), ID: o.id, Force: force}
	err = s.atLeader(ctx, rpc.MethodRestore, req, &reply, func() error {
		var err error
		reply, err = s.restoreHere(ctx, a, force)
		return err
	})
	return client.Restored{Applied: reply.Applied, Epoch: reply.Epoch}, err
}

// sweepArchives removes what a crash left of archives on their way in.
func (s *Server) sweepArchives() error {
	dir := filepath.Join(s.cfg.DataDir, archiveDir)
	if err := s.cfg.Host.FS.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing %s: %w", dir, err)
	}
	return nil
}

// takeArchive reads an archive into a directory of its own and checks it.
func (s *Server) takeArchive(name string, r io.Reader) (*store.Archive, error) {
	a, err := store.Unpack(s.cfg.Host.FS, filepath.Join(s.cfg.DataDir, archiveDir, name), r)
	if err != nil {
		return nil, job.Invalid("snapshot", "must be a whole snapshot that axd made: "+err.Error(), "")
	}
	if _, err := readArchive(a); err != nil {
		s.dropArchive(a)
		return nil, err
	}
	return a, nil
}

func (s *Server) dropArchive(a *store.Archive) {
	if err := a.Remove(); err != nil {
		s.log.Warn("removing an archive failed", "error", err)
	}
}

// readArchive reads every row of an archive's state and checks its invariants.
func readArchive(a *store.Archive) (info fsm.Info, err error) {
	err = a.Read(func(st store.Store) error {
		v := st.View()
		defer v.Close()
		if err := fsm.CheckFormat(v); err != nil {
			return job.Errorf(job.CodeUnsupported, err.Error())
		}
		info = fsm.ReadInfo(v)
		if m := a.Meta(); info.Applied != m.Applied || m.Applied > m.Index {
			return job.Invalid("snapshot", fmt.Sprintf("must hold the state of entry %d, it holds that of entry %d", m.Applied, info.Applied), "")
		}
		if problems := fsm.Check(v, checkProblems); problems != nil {
			return job.Invalid("snapshot", "must hold a sound state: "+strings.Join(problems, "; "), "")
		}
		return nil
	})
	var known *job.Error
	if err != nil && !errors.As(err, &known) {
		err = job.Invalid("snapshot", "must hold a state that can be read: "+err.Error(), "")
	}
	return info, err
}

// onArchive streams the offered archive to the leader.
func (s *Server) onArchive(r *rpc.Request) error {
	var m rpc.Archive
	if err := r.Decode(&m); err != nil {
		return err
	}
	o := s.offered.Load()
	if o == nil || o.id != m.ID {
		return job.NotFound("archive", m.ID)
	}
	stream, err := o.archive.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(chunkWriter{r}, stream)
	return errors.Join(err, stream.Close())
}

type chunkWriter struct{ r *rpc.Request }

func (w chunkWriter) Write(p []byte) (int, error) {
	if err := w.r.Send(rpc.ArchiveChunk{Data: p}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// onRestore fetches an archive from the server that was given it, and restores it.
func (s *Server) onRestore(ctx context.Context, r *rpc.Request) (any, error) {
	var m rpc.Restore
	if err := r.Decode(&m); err != nil {
		return nil, err
	}
	if !s.restore.TryLock() {
		return nil, job.Errorf(job.CodeConflict, "another restore is under way on server "+s.cfg.Name)
	}
	defer s.restore.Unlock()
	if _, err := s.node.ConfirmLeadership(ctx); err != nil {
		return nil, s.notLeading(err)
	}
	in, out := io.Pipe()
	fetched := make(chan struct{})
	go func() {
		defer close(fetched)
		err := s.peers.Stream(ctx, m.Address, rpc.MethodArchive, rpc.Archive{ID: m.ID}, func(decode func(any) error) error {
			var c rpc.ArchiveChunk
			if err := decode(&c); err != nil {
				return err
			}
			_, err := out.Write(c.Data)
			return err
		})
		_ = out.CloseWithError(err)
	}()
	a, err := s.takeArchive("fetched", in)
	_ = in.Close() // ends the stream, where it hasn't ended
	<-fetched
	if err != nil {
		return nil, err
	}
	defer s.dropArchive(a)
	reply, err := s.restoreHere(ctx, a, m.Force)
	return reply, s.notLeading(err)
}

// restoreHere replaces the cluster's state by an archive's that was checked. The
// term's work ends before and begins anew after: nothing that was built from the
// old state outlives it.
func (s *Server) restoreHere(ctx context.Context, a *store.Archive, force bool) (rpc.RestoreReply, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTime) // not left half done because somebody hung up
	defer cancel()
	is := s.info()
	var origin fsm.Origin
	err := a.Rewrite(func(st store.Store) error {
		batch := st.Batch()
		defer batch.Discard()
		var err error
		origin, err = fsm.Rebase(batch, fsm.Base{
			How: fsm.FromSnapshot, ClusterID: is.ClusterID, Epoch: is.RestoreEpoch, FeatureLevel: is.FeatureLevel, Now: s.clock.Now(),
		})
		if err != nil {
			return err
		}
		batch.Commit()
		return nil
	})
	if err != nil {
		return rpc.RestoreReply{}, err
	}
	resume, err := s.pauseTerm(ctx)
	if err != nil {
		return rpc.RestoreReply{}, err
	}
	defer resume()
	s.log.Warn("restoring a snapshot: the state of the whole cluster is replaced", "from_cluster", origin.ClusterID,
		"applied", origin.Applied, "epoch", origin.Epoch, "force", force)
	err = s.node.Restore(ctx, a, func(v store.View) error { return mayReplace(v, is.RestoreEpoch, force) })
	if err != nil {
		return rpc.RestoreReply{}, err
	}
	s.log.Info("the snapshot is restored; the other servers get it and then their votes back", "epoch", origin.Epoch)
	return rpc.RestoreReply{Applied: origin.Applied, Epoch: origin.Epoch}, nil
}

// mayReplace refuses to throw away what somebody may want. Even a forced restore
// is refused where another one was made since its epoch was chosen.
func mayReplace(v store.View, epoch uint32, force bool) error {
	if is := fsm.ReadInfo(v); is.RestoreEpoch != epoch {
		return job.Conflict("snapshot", "another restore was made meanwhile", fmt.Sprint(is.RestoreEpoch))
	}
	tasks := fsm.CountTasks(v, "").Sum()
	jobs, _, err := fsm.ListJobs(v, "", "", fsm.MaxPage)
	if err != nil || force || tasks == 0 && len(jobs) == 0 {
		return err
	}
	return job.Errorf(job.CodeConflict, fmt.Sprintf("the cluster isn't empty: it holds %d tasks and %d jobs, and a restore replaces them all; "+
		"restore into a new cluster, or force it (--force), and they are lost", tasks, len(jobs)))
}

package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/axd-project/axd/rpc"
)

// spooled is what the worker owes the leader for one attempt: its result, or
// that it gives the attempt back.
type spooled struct {
	Ref      rpc.Ref `msgpack:"r"`
	Result   []byte  `msgpack:"R,omitempty"` // rpc.AttemptResult as msgpack
	GiveBack string  `msgpack:"g,omitempty"` // why; Result is empty then
}

// spool keeps what is owed until it is acknowledged, so that a restart of the
// worker loses none. Without a directory it keeps nothing.
type spool struct{ dir string }

func (s spool) path(ref rpc.Ref) string { return filepath.Join(s.dir, refName(ref)) }

// put writes an entry durably: synced, then renamed into place.
func (s spool) put(e spooled) error {
	if s.dir == "" {
		return nil
	}
	b, err := msgpack.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	temporary := s.path(e.Ref) + temporarySuffix
	if err := writeSynced(temporary, b); err != nil {
		_ = os.Remove(temporary)
		return fmt.Errorf("write result: %w", err)
	}
	if err := os.Rename(temporary, s.path(e.Ref)); err != nil {
		return fmt.Errorf("publish result: %w", err)
	}
	if err := syncDir(s.dir); err != nil {
		return fmt.Errorf("publish result: %w", err)
	}
	return nil
}

// remove forgets an acknowledged entry. A crash may bring it back; then it is
// sent once more and refused.
func (s spool) remove(ref rpc.Ref) error {
	if s.dir == "" {
		return nil
	}
	if err := os.Remove(s.path(ref)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove acknowledged result: %w", err)
	}
	return nil
}

const (
	temporarySuffix = ".tmp"
	brokenSuffix    = ".broken"
)

// load reads every entry. A file that can't be read is set aside under another
// name and reported, since one bad file must not keep a worker from starting.
func (s spool) load() (entries []spooled, broken []string, err error) {
	if s.dir == "" {
		return nil, nil, nil
	}
	names, err := readNames(s.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read results: %w", err)
	}
	for _, name := range names {
		path := filepath.Join(s.dir, name)
		switch {
		case strings.HasSuffix(name, temporarySuffix):
			if err := os.Remove(path); err != nil {
				return nil, nil, fmt.Errorf("remove unfinished result: %w", err)
			}
			continue
		case strings.HasSuffix(name, brokenSuffix):
			continue
		}
		var e spooled
		b, err := os.ReadFile(path)
		if err == nil {
			err = msgpack.Unmarshal(b, &e)
		}
		if err != nil || refName(e.Ref) != name {
			if err := os.Rename(path, path+brokenSuffix); err != nil {
				return nil, nil, fmt.Errorf("set a broken result aside: %w", err)
			}
			broken = append(broken, path+brokenSuffix)
			continue
		}
		entries = append(entries, e)
	}
	return entries, broken, nil
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

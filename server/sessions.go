package server

import (
	"sync"

	"github.com/axd-project/axd/rpc"
)

// sessions finds workers' sessions by connection and by name.
type sessions struct {
	mu struct {
		sync.Mutex
		conns map[*rpc.Conn]*session
		names map[string]*session
		ends  int // how often all were ended
	}
	running sync.WaitGroup // each session's goroutines, which end with its connection
}

// ended returns how often all sessions were ended.
func (s *sessions) ended() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.ends
}

// put enters a session that was opened since so many ends of all. It reports false
// where there was another one meanwhile: the loop that knows the session may be
// gone, and the next, of the same term after a restore, has never heard of it.
func (s *sessions) put(sess *session, ends int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.ends != ends {
		return false
	}
	if s.mu.conns == nil {
		s.mu.conns, s.mu.names = map[*rpc.Conn]*session{}, map[string]*session{}
	}
	s.mu.conns[sess.conn] = sess
	s.mu.names[sess.name] = sess
	return true
}

func (s *sessions) remove(sess *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.conns, sess.conn)
	if s.mu.names[sess.name] == sess {
		delete(s.mu.names, sess.name)
	}
}

func (s *sessions) byConn(c *rpc.Conn) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.conns[c]
}

func (s *sessions) byName(name string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.names[name]
}

// closeAll ends every session: this server no longer leads, and workers look
// for the leader when their connection ends.
func (s *sessions) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.ends++
	for c := range s.mu.conns {
		_ = c.Close()
	}
}

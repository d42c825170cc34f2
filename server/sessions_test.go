package server

import (
	"testing"

	"github.com/axd-project/axd/rpc"
)

// A session whose hello was answered by a loop that has ended since must not be
// kept: after a restore the next loop has the same term, so heartbeats would go
// on, and the worker would get no work.
func TestASessionOfALoopThatHasEndedIsNotKept(t *testing.T) {
	var s sessions
	ends := s.ended()
	late := newSession(new(rpc.Conn), &rpc.WorkerHello{Name: "w"}, nil)
	s.closeAll()
	if s.put(late, ends) || s.byName("w") != nil || s.byConn(late.conn) != nil {
		t.Error("a session from before the end of all is kept")
	}
	sess := newSession(new(rpc.Conn), &rpc.WorkerHello{Name: "w"}, nil)
	if !s.put(sess, s.ended()) || s.byName("w") != sess || s.byConn(sess.conn) != sess {
		t.Error("a session of the present loop is not kept")
	}
}

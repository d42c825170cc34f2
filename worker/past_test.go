package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/rpc"
)

func TestOutputOfEndedAttemptsIsKeptForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var room headRoom
		var p pastOutputs
		ref := func(i int) rpc.Ref { return rpc.Ref{ID: [16]byte{byte(i)}, Token: rpc.Token{1}} }
		with := func(text string) *hub {
			h := newHub(&room)
			if text != "" {
				h.write(false, []byte(text))
			}
			h.close()
			return h
		}
		p.keep(ref(0), with(""))
		if p.find(ref(0)) != nil {
			t.Error("an attempt without output takes a place")
		}
		for i := range maxPast + 1 {
			p.keep(ref(i), with("x"))
		}
		if p.find(ref(0)) != nil || p.find(ref(1)) == nil || p.find(ref(maxPast)) == nil {
			t.Error("not the latest attempts are kept")
		}
		time.Sleep(pastTime + time.Second)
		if p.find(ref(maxPast)) != nil || room.used.Load() != 0 {
			t.Errorf("after %s something is kept: %d bytes", pastTime, room.used.Load())
		}
	})
}

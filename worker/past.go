package worker

import (
	"sync"
	"time"

	"github.com/axd-project/axd/rpc"
)

const (
	maxPast  = 64              // ended attempts whose output is kept
	pastTime = 5 * time.Second // for which it is kept
)

// pastOutputs keeps the beginning of output of attempts that have just ended, for
// who follows a moment late: a short command is over before its submitter knows
// its id.
type pastOutputs struct {
	mu    sync.Mutex
	kept  [maxPast]pastOutput
	place int
}

type pastOutput struct {
	ref rpc.Ref
	hub *hub
}

// keep holds an ended attempt's output for pastTime, or until as many others came.
func (p *pastOutputs) keep(ref rpc.Ref, h *hub) {
	if !h.keeps() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	slot := &p.kept[p.place]
	p.place = (p.place + 1) % maxPast
	if slot.hub != nil {
		slot.hub.forget()
	}
	*slot = pastOutput{ref, h}
	time.AfterFunc(pastTime, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if slot.hub == h {
			*slot = pastOutput{}
			h.forget()
		}
	})
}

// find returns the output of an attempt, nil if it is not kept.
func (p *pastOutputs) find(ref rpc.Ref) *hub {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, is := range p.kept {
		if is.hub != nil && attemptOf(is.ref) == attemptOf(ref) {
			return is.hub
		}
	}
	return nil
}

package chaos

import (
	"context"
	"encoding/json"
	"time"

	"github.com/axd-project/axd/client"
)

const (
	tellingTasks = 2                // for each receiver, that have something to tell as one falls ill
	tellingPause = 10 * time.Second // between them, where that could not be told
)

// slowCallbacks makes a receiver of callbacks answer late, never, or with errors.
func slowCallbacks(i *injector, _ Fault) func() effect {
	m := lazy + mood(i.perm(int(healing - lazy))[0])
	i.sink.set(m)
	i.tell()
	return func() effect {
		next := time.Now().Add(tellingPause)
		i.within(memberLimit, func() bool {
			if i.sink.bothered() == 0 && time.Now().After(next) {
				i.tell()
				next = time.Now().Add(tellingPause)
			}
			return i.sink.bothered() > 0
		})
		return effect{i.sink.set(healing), "callbacks to a receiver that is " + m.String()}
	}
}

// tell submits tasks whose ends both receivers are to be told of.
func (i *injector) tell() {
	payload, _ := json.Marshal(behaviour{RunMS: 10}) // plain fields
	for range tellingTasks {
		for _, url := range []string{sinkURL, steadyURL} {
			r := client.SubmitRequest{Job: plainJob, Payload: payload}
			r.CallbackURL = url
			ctx, cancel := context.WithTimeout(i.c.ctx, callLimit)
			_, _ = i.operator.Submit(ctx, r) // or another one will do
			cancel()
		}
	}
}

package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/raftnode"
	"github.com/axd-project/axd/rpc"
)

// Leadership that was lost and regained between two looks ends the old term's
// work and begins the new one's, one after the other, also where the loss itself
// was never seen.
func TestEachTermsWorkIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terms := make(chan raftnode.Term)
		var log []string
		busy := false
		lead := func(ctx context.Context, term uint64) {
			if busy {
				t.Errorf("term %d begins before the one before has ended", term)
			}
			busy = true
			log = append(log, fmt.Sprint("begin ", term))
			<-ctx.Done()
			log = append(log, fmt.Sprint("end ", term))
			busy = false
		}
		s := &Server{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.followTerms(t.Context(), terms, lead)
		}()
		for _, term := range []raftnode.Term{
			{Number: 3, Leading: true}, {Number: 5, Leading: true}, {Number: 6}, {Number: 7}, {Number: 8, Leading: true},
		} {
			terms <- term
			synctest.Wait()
		}
		close(terms)
		<-done
		want := []string{"begin 3", "end 3", "begin 5", "end 5", "begin 8", "end 8"}
		if !slices.Equal(log, want) {
			t.Errorf("got %q, want %q", log, want)
		}
	})
}

// A call to the leader that failed says what became of the command.
func TestForwardedCommandsOutcomes(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want job.Code
	}{
		"never sent":           {fmt.Errorf("%w: dial", rpc.ErrNotSent), job.CodeNoLeader},
		"sent, then it broke":  {fmt.Errorf("%w: closed by the peer", rpc.ErrClosed), job.CodeUnknownOutcome},
		"sent, then too late":  {context.DeadlineExceeded, job.CodeUnknownOutcome},
		"closed before it was": {errors.Join(rpc.ErrClosed, rpc.ErrNotSent), job.CodeNoLeader},
		"answered":             {&rpc.Error{Code: string(job.CodeOverloaded), Text: "full"}, job.CodeOverloaded},
		"answered: unknown":    {&rpc.Error{Code: string(job.CodeUnknownOutcome)}, job.CodeUnknownOutcome},
	} {
		if err := forwardError(tt.err); !errors.Is(err, &job.Error{Code: tt.want}) {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
	}
}

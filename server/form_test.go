package server

import (
	"errors"
	"io"
	"testing"

	"github.com/axd-project/axd/job"
)

// A server that lost its disk, and asks to join while another voter is silent for a
// moment, tries again: a conflict would end it, and perhaps cost the cluster its majority.
func TestWhoCanNotBeReplacedYetTriesAgain(t *testing.T) {
	if err := whileOthersAreSilent(job.Conflict("server", "can't be removed: only 1 would answer", "s3")); errors.Is(err, job.ErrConflict) || !errors.Is(err, job.ErrOverloaded) {
		t.Errorf("it is told %v", err)
	}
	if err := whileOthersAreSilent(io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("another failure became %v", err)
	}
}

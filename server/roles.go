package server

import (
	"strings"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// mayCall refuses a peer that calls what isn't its to call. A method's first word
// is the role of its callers, so a new one is closed to others from the start.
func mayCall(method string, peer rpc.Hello) error {
	if role, _, _ := strings.Cut(method, "."); role != peer.Role {
		return job.Errorf(job.CodeForbidden, method+" is not for a peer that says it is a "+peer.Role+", as "+peer.Name+" does")
	}
	return nil
}

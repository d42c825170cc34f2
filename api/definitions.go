package api

import (
	"net/http"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// A definition (job, workflow, calendar, schedule) is put as the shape that GET
// answers: its read-only fields are taken and left aside, so that it can be read,
// edited and put back.

// head is what a definition in a body says of itself.
type head struct{ name, namespace, fileSet *string }

// readDefinition reads the body of a put into in, whose head must agree with the
// request. It returns the name in the path.
func (r *request) readDefinition(in any, h head) (name string, err error) {
	name = r.name("name")
	if err := job.ValidateName("name", name); err != nil {
		return name, err
	}
	if err := decode(r.body, in); err != nil {
		return name, err
	}
	switch {
	case *h.name != "" && *h.name != name:
		return name, job.Invalid("name", "must equal the name in the path, or be absent", *h.name)
	case *h.fileSet != "" && job.ValidateName("file_set", *h.fileSet) != nil:
		return name, job.ValidateName("file_set", *h.fileSet)
	case *h.namespace != "" && *h.namespace != r.namespace:
		return name, job.Invalid("namespace", "must equal the parameter namespace, or be absent", *h.namespace)
	}
	return name, nil
}

// storeDefinition proposes a put. It sets version to the definition's, and calls show
// with a view of the state, where the answer's other fields can be read. It returns
// the answer's status.
func (a *api) storeDefinition(r *request, put fsm.Command, version *uint64, show func(fsm.Reader)) (status int, err error) {
	result, wrong := a.propose(r.ctx, put)
	if wrong != nil {
		return 0, wrong
	}
	*version = result.Version
	status = http.StatusOK
	if result.Changed && result.Version == 1 {
		status = http.StatusCreated
		r.Response().Header().Set("Location", r.Request().URL.RequestURI())
	}
	// The write is done: a read that fails now only costs the answer its times.
	_ = a.backend.Read(r.ctx, false, func(v fsm.Reader) error {
		show(v)
		return nil
	})
	return status, nil
}

package api

import (
	"regexp"

	"github.com/axd-project/axd/job"
)

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)

func checkName(field, name string) *job.Error {
	if nameForm.MatchString(name) {
		return nil
	}
	return job.Invalid(field, "must be 1 to 253 characters of [A-Za-z0-9._-], the first of them [A-Za-z0-9]", name)
}

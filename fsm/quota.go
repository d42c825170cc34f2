package fsm

import (
	"strconv"

	"github.com/axd-project/axd/job"
)

// withinQuota refuses a new task where as many wait in the namespace as may.
func (a *apply) withinQuota(namespace string) *job.Error {
	a.key = a.key.counter(countNamespace).name(namespace).u8(byte(job.Pending))
	most := a.settings.MaxPendingOf(namespace)
	if a.counter(a.key).value < int64(most) {
		return nil
	}
	return &job.Error{
		Code: job.CodeQuotaExceeded, Field: "namespace", Value: job.Shorten(namespace),
		Rule: "has as many tasks that wait as its quota allows, " + strconv.Itoa(most),
	}
}

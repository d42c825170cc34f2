package fsm

import "github.com/axd-project/axd/job"

// The seam to job's validation and policy, which is being written beside this.

func jobCheckName(field, s string) *job.Error { return nil }

func jobValidate(v any) *job.Error {
	if x, ok := v.(interface{ Validate() *job.Error }); ok {
		return x.Validate()
	}
	return nil
}

func jobMerge(p, o job.Policy) job.Policy {
	if x, ok := any(p).(interface{ Merge(job.Policy) job.Policy }); ok {
		return x.Merge(o)
	}
	return p
}

func jobRetry(p job.Policy) job.Retry {
	if x, ok := any(p).(interface{ RetryOrDefault() job.Retry }); ok {
		return x.RetryOrDefault()
	}
	return job.Retry{}
}

func jobDelay(r job.Retry, k int, draw float64) job.Duration {
	if x, ok := any(r).(interface {
		Delay(k int, draw float64) job.Duration
	}); ok {
		return x.Delay(k, draw)
	}
	return r.Initial
}

func jobRequestHash(job.TaskSpec) (h [16]byte) { return h }

package fsm

import "github.com/axd-project/axd/job"

// modelMost is how many attempts the model's concurrency limit allows.
const modelMost = 2

// room reports whether the limit lets a task begin.
func (m *model) room(t *mTask) bool {
	held := 0
	for _, other := range m.tasks {
		if other.limited && other.state.Active() {
			held++
		}
	}
	return !t.limited || held < modelMost
}

// admit predicts what the keys of a request allow: an answer, or a task to replace.
func (m *model) admit(s *job.TaskSpec) (*mResult, *mTask) {
	var replaced *mTask
	if k, ok := m.keys[s.IdempotencyKey]; ok && s.IdempotencyKey != "" && k.expiry > m.now {
		first := m.tasks[k.id]
		switch same := k.content == string(s.Payload)+s.UniqueKey; {
		case same && s.IdempotencyPolicy == job.IdempotencyReject:
			return &mResult{code: job.CodeConflict}, nil
		case same:
			return &mResult{id: k.id, dedup: true, state: first.state}, nil
		case s.IdempotencyPolicy != job.IdempotencyReplace:
			return &mResult{code: job.CodeIdempotencyMismatch}, nil
		case first.state != job.Pending:
			return &mResult{code: job.CodeConflict}, nil
		default:
			replaced = first
		}
	}
	for _, t := range m.tasks {
		if s.UniqueKey != "" && t.unique == s.UniqueKey && !t.state.Terminal() && t != replaced {
			return &mResult{code: job.CodeConflict}, nil
		}
	}
	return nil, replaced
}

package job

// Needs are the steps that a step needs, by what has become of them; what is in
// none of the four has not ended.
type Needs struct {
	Total    uint32
	Success  uint32
	Failed   uint32 // failed, timeout or cancelled
	Skipped  uint32
	Upstream uint32 // upstream_failed
}

// Decision is what a rule says of a step that has not begun.
type Decision uint8

// The decisions.
const (
	DecideWait  Decision = iota
	DecideBegin          // the rule holds
	DecideSkip           // it can't hold any more, and nothing has failed
	DecideFail           // it can't hold any more, since something has failed
)

func (n *Needs) ended() uint32  { return n.Success + n.Failed + n.Skipped + n.Upstream }
func (n *Needs) failed() uint32 { return n.Failed + n.Upstream }

// Decide applies a rule. It says DecideBegin as soon as the rule holds, whatever the rest
// will do, but that a step will not begin only when all it needs has ended: so a
// step is never skipped while one of them still runs.
func (r Rule) Decide(n Needs) Decision {
	if n.Total == 0 || r == Always || r.early(&n) {
		return DecideBegin
	}
	if n.ended() < n.Total {
		return DecideWait
	}
	switch r {
	case AllDone:
		return DecideBegin
	case AllFailed:
		if n.failed() == n.Total {
			return DecideBegin
		}
		return DecideSkip
	case OneFailed:
		return DecideSkip
	case OneSuccess, OneDone: // else early
		return n.unmet()
	case NoneFailed:
		if n.failed() == 0 {
			return DecideBegin
		}
		return DecideFail
	case NoneFailedMinSuccess:
		if n.failed() == 0 && n.Success > 0 {
			return DecideBegin
		}
		return n.unmet()
	}
	if n.Success == n.Total {
		return DecideBegin
	}
	return n.unmet()
}

// early reports whether the rule holds before all has ended.
func (r Rule) early(n *Needs) bool {
	switch r {
	case OneSuccess:
		return n.Success > 0
	case OneFailed:
		return n.failed() > 0
	case OneDone:
		return n.Success+n.Failed > 0
	}
	return false
}

// unmet is the decision where success was wanted in vain.
func (n *Needs) unmet() Decision {
	if n.failed() > 0 {
		return DecideFail
	}
	return DecideSkip
}

package fsm

import (
	"fmt"

	"github.com/axd-project/axd/job"
)

// limitPolicy reads the limits of a line.
func limitPolicy(f fields, p *job.Policy) {
	if f["most"] != "" {
		p.Concurrency = &job.Concurrency{Max: int(f.number("most")), Key: f["by"], Name: f["limit"]}
	}
	if f["rate"] != "" {
		p.Rate = &job.Rate{Max: int(f.number("rate")), Per: f.duration("per"), Burst: int(f.number("burst")), Key: f["by"], Name: f["limit"]}
	}
}

// describeLimit says in words what a row of the limits' tables holds, of unique keys
// and of deadlines.
func (e *scriptEnv) describeLimit(k, v []byte) (string, bool) {
	r := readKey(k)
	switch k[0] {
	case tableDeadlines:
		at := r.time()
		ref := r.ref()
		return fmt.Sprintf("deadline %s %s/%s", e.at(at), ref.Namespace, e.name(ref.ID)), true
	case tableUnique:
		return fmt.Sprintf("unique %s %s", r.name(), r.name()), true
	case tableLimits:
		row, _ := decodeLimit(v)
		id := r.limit()
		return fmt.Sprintf("limit %s %s %q: %d of %d", id.Namespace, id.Scope, id.Key, row.Held, row.Max), true
	case tableHolders:
		id := r.limit()
		return fmt.Sprintf("holder %s %s %q %s", id.Namespace, id.Scope, id.Key, e.name(r.id())), true
	case tableRates:
		id := r.limit()
		return fmt.Sprintf("rate %s %s %q", id.Namespace, id.Scope, id.Key), true
	case tableRateAge:
		at, id := r.time(), r.limit()
		return fmt.Sprintf("rate age %s %s %s %q", e.at(at-at%1000), id.Namespace, id.Scope, id.Key), true
	}
	return "", false
}

func quotaCommand(verb string, f fields) Command {
	most := int(f.number("most"))
	if verb == "quota" {
		return Configure{Settings: &job.Settings{Quotas: map[string]int{f["of"]: most}}}
	}
	return Configure{Settings: &job.Settings{MaxPending: &most}}
}

package client

import (
	"context"
	"time"
)

// ActorHeader carries who sends a request, as they call themselves. It is a claim
// that nothing proves.
const ActorHeader = "Axd-Actor"

// MaxActor is the longest actor, in bytes.
const MaxActor = 256

// AuditRecord tells of one change of a definition or one act by hand.
type AuditRecord struct {
	ID        string    `json:"id"`
	At        time.Time `json:"at"`
	Namespace string    `json:"namespace,omitempty"` // absent: it belongs to none, such as a worker
	Actor     string    `json:"actor,omitempty"`     // as who sent it calls themselves
	Address   string    `json:"address,omitempty"`   // that the request came from
	Verb      string    `json:"verb"`                // such as put, delete, cancel
	Kind      string    `json:"kind"`                // of the object, such as job, task, worker
	Names     []string  `json:"names,omitempty"`     // of the object, or of several; none: all that detail tells of
	Detail    string    `json:"detail,omitempty"`
}

// AuditList is a page of audit records, the newest first.
type AuditList struct {
	Records    []AuditRecord `json:"records"`
	NextCursor string        `json:"next_cursor,omitempty"`
}

// AuditFilter selects audit records; empty fields don't filter.
type AuditFilter struct {
	Namespace string // empty: all, and what belongs to none
	Actor     string
	Verb      string
	Kind      string // of the object, such as job
	Name      string // of the object; needs Kind
	From      string // at or after, RFC 3339
	To        string // before, RFC 3339
}

// Audit returns a page of audit records, the newest first: of all namespaces,
// unless the filter names one.
func (c *Client) Audit(ctx context.Context, f AuditFilter, limit int, cursor string) (AuditList, error) {
	q := page(limit, cursor)
	q["namespace"] = nil
	for name, value := range map[string]string{
		"namespace": f.Namespace, "actor": f.Actor, "verb": f.Verb, "kind": f.Kind, "object": f.Name, "from": f.From, "to": f.To,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	var out AuditList
	err := c.get(ctx, "/v1/audit", q, &out)
	return out, err
}

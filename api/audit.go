package api

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func auditRoutes() []route {
	return []route{{
		method: get, path: "/v1/audit", handle: (*api).listAudit, statuses: ok, answer: client.AuditList{},
		summary: "List who changed definitions and acted by hand, the newest first; of all namespaces unless one is given. " +
			"Who acts says so in the header " + client.ActorHeader,
		query: []string{"actor", "verb", "kind", "object", "from", "to", "limit", "cursor"},
	}}
}

// sender is who sends a request, for the audit record of what it does.
type sender struct{ actor, address string }

type senderKey struct{}

// withSender adds to a request's context who sends it. What only makes tasks goes
// without, since it is not recorded.
func withSender(ctx context.Context, r *http.Request) (context.Context, *job.Error) {
	actor := strings.TrimSpace(r.Header.Get(client.ActorHeader))
	if len(actor) > client.MaxActor || !utf8.ValidString(actor) || strings.ContainsFunc(actor, unicode.IsControl) {
		return ctx, job.Invalid(client.ActorHeader, "must be UTF-8 text of at most "+strconv.Itoa(client.MaxActor)+" bytes without control characters", actor)
	}
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	return context.WithValue(ctx, senderKey{}, sender{actor, address}), nil
}

// sent adds to a command who sends it, where the request says so.
func sent(ctx context.Context, c fsm.Command) (fsm.Command, error) {
	s, ok := ctx.Value(senderKey{}).(sender)
	if !ok {
		return c, nil
	}
	return fsm.SentBy(s.actor, s.address, c)
}

// actorOf is who sends a request, as they call themselves.
func actorOf(ctx context.Context) string {
	s, _ := ctx.Value(senderKey{}).(sender)
	return s.actor
}

func (r *request) auditFilter() (f fsm.AuditFilter, err *job.Error) {
	f = fsm.AuditFilter{
		Actor: r.values.Get("actor"), Verb: r.values.Get("verb"), Kind: r.values.Get("kind"), Name: r.values.Get("object"),
	}
	if r.hasNamespace {
		f.Namespace = r.namespace
	}
	for _, part := range [][2]string{{"actor", f.Actor}, {"verb", f.Verb}, {"kind", f.Kind}, {"object", f.Name}} {
		switch {
		case r.values.Has(part[0]) && part[1] == "":
			return f, job.Invalid(part[0], "must not be empty", "")
		case len(part[1]) > job.MaxName*2 || strings.ContainsFunc(part[1], unicode.IsControl):
			return f, job.Invalid(part[0], "must be text of at most "+strconv.Itoa(job.MaxName*2)+" bytes without control characters", part[1])
		}
	}
	if err := knownAct(f.Kind, f.Verb); err != nil {
		return f, err
	}
	if f.Name != "" && f.Kind == "" {
		return f, job.Invalid("object", "needs kind beside it, such as kind=job", f.Name)
	}
	if f.From, err = r.time("from"); err != nil {
		return f, err
	}
	if f.To, err = r.time("to"); err != nil {
		return f, err
	}
	if f.To != 0 && f.To <= f.From {
		return f, job.Invalid("to", "must be after from", r.values.Get("to"))
	}
	return f, nil
}

// knownAct refuses what no record can hold, so that a misspelt word isn't answered with
// an empty list.
func knownAct(kind, verb string) *job.Error {
	kinds := slices.Sorted(maps.Keys(fsm.AuditVerbs))
	if kind != "" && !slices.Contains(kinds, kind) {
		return job.Invalid("kind", "must be one of "+strings.Join(kinds, ", "), kind)
	}
	if verb == "" {
		return nil
	}
	var verbs []string
	for _, k := range kinds {
		if kind == "" || k == kind {
			verbs = append(verbs, fsm.AuditVerbs[k]...)
		}
	}
	slices.Sort(verbs)
	if verbs = slices.Compact(verbs); slices.Contains(verbs, verb) {
		return nil
	}
	rule := "must be one of " + strings.Join(verbs, ", ")
	if kind != "" {
		rule += ", the acts on a " + kind
	}
	return job.Invalid("verb", rule, verb)
}

func (a *api) listAudit(r *request) error {
	f, wrong := r.auditFilter()
	if wrong != nil {
		return wrong
	}
	out := client.AuditList{Records: []client.AuditRecord{}}
	return a.page(r, &out, func(v fsm.Reader, limit int) error {
		page, err := fsm.ListAudit(v, f, r.values.Get("cursor"), limit)
		out.NextCursor = page.Next
		for _, t := range page.Records {
			out.Records = append(out.Records, client.AuditRecord{
				ID: t.ID.String(), At: at(t.At), Namespace: t.Namespace, Actor: t.Actor, Address: t.From,
				Verb: t.Verb, Kind: t.Kind, Names: t.Names, Detail: t.Detail,
			})
		}
		return err
	})
}

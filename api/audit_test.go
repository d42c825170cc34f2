package api

import (
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func TestAudit(t *testing.T) {
	w := newWorld(t)
	if got := expect[client.AuditList](w, 200, "GET", "/v1/audit", ""); got.Records == nil || len(got.Records) != 0 {
		t.Errorf("none: %+v", got)
	}
	by := func(actor, method, target, body string) int {
		r := newRequest(method, target, body)
		r.Header.Set(client.ActorHeader, actor)
		return w.serve(r).Code
	}
	if code := by("ann@desk", "PUT", "/v1/jobs/report", `{"handler":"h"}`); code != 201 {
		t.Fatal(code)
	}
	w.advance(1000)
	if code := by("bob@desk", "PUT", "/v1/jobs/report?namespace=ops", `{"handler":"h"}`); code != 201 {
		t.Fatal(code)
	}
	if code := by("ann@desk", "POST", "/v1/tasks", `{"job":"report","delay":"1h"}`); code != 201 { // not recorded
		t.Fatal(code)
	}
	id := expect[client.TaskList](w, 200, "GET", "/v1/tasks", "").Tasks[0].ID
	if code := by("ann@desk", "POST", "/v1/tasks/"+id+"/cancel", `{"reason":"enough"}`); code != 200 {
		t.Fatal(code)
	}
	all := expect[client.AuditList](w, 200, "GET", "/v1/audit", "").Records
	if len(all) != 3 || all[0].Verb != "cancel" || all[0].Names[0] != id || all[0].Detail != "enough" || all[0].Actor != "ann@desk" ||
		all[0].Address != "192.0.2.1" || all[2].Detail != "version 1" || !all[2].At.Equal(at(startOfTime)) {
		t.Errorf("all: %+v", all)
	}
	for query, want := range map[string]int{
		"namespace=ops": 1, "namespace=default": 2, "actor=ann@desk": 2, "actor=nobody": 0, "verb=put": 2, "kind=task": 1,
		"kind=job&object=report": 2, "kind=job&object=report&namespace=ops": 1, "kind=task&object=" + id: 1,
		"from=2026-03-29T00:00:01Z": 2, "to=2026-03-29T00:00:01Z": 1,
		"actor=ann@desk&verb=put&from=2026-03-29T00:00:00Z&to=2026-03-30T00:00:00Z": 1,
	} {
		if got := expect[client.AuditList](w, 200, "GET", "/v1/audit?"+query, "").Records; len(got) != want {
			t.Errorf("%s: %+v, want %d", query, got, want)
		}
	}
	page := expect[client.AuditList](w, 200, "GET", "/v1/audit?limit=2", "")
	rest := expect[client.AuditList](w, 200, "GET", "/v1/audit?limit=2&cursor="+page.NextCursor, "")
	if len(page.Records) != 2 || len(rest.Records) != 1 || rest.Records[0].ID != all[2].ID || rest.NextCursor != "" {
		t.Errorf("pages %+v, %+v", page, rest)
	}
	for query, field := range map[string]string{
		"object=report": "object", "kind=": "kind", "actor=a%00b": "actor", "from=x": "from",
		"from=2026-03-30T00:00:00Z&to=2026-03-29T00:00:00Z": "to", "cursor=x": "cursor", "limit=0": "limit", "subject=x": "query.subject",
		"verb=" + strings.Repeat("v", 600): "verb", "kind=zz": "kind", "kind=zz&object=a": "kind", "verb=puts": "verb", "kind=job&verb=drain": "verb",
		"limit=1001": "limit",
	} {
		wantProblem(t, w.do("GET", "/v1/audit?"+query, ""), 400, job.CodeInvalid, field)
	}
	for _, actor := range []string{strings.Repeat("a", 257), "a\x01b", "\xff"} {
		if code := by(actor, "DELETE", "/v1/jobs/report", ""); code != 400 {
			t.Errorf("actor %q: %d", actor, code)
		}
	}
}

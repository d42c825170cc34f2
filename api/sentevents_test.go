package api

import (
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func TestEvents(t *testing.T) {
	w := newWorld(t)
	if got := expect[client.EventList](w, 200, "GET", "/v1/events", ""); got.Events == nil || len(got.Events) != 0 {
		t.Errorf("none: %+v", got)
	}
	expect[client.Job](w, 201, "PUT", "/v1/jobs/load", `{"handler":"h"}`)
	expect[client.Schedule](w, 201, "PUT", "/v1/schedules/loads", `{"job":"load","event":{"name":"arrived"},"overlap":"allow"}`)
	r := newRequest("POST", "/v1/events/arrived", `{"dedup_id":"f1","payload":{"n":9007199254740993}}`)
	r.Header.Set(client.ActorHeader, "ann@desk")
	sent := decoded[client.Event](t, 201, w.serve(r))
	if sent.Fired != 1 || sent.Deduplicated || sent.Actor != "ann@desk" || sent.Address != "192.0.2.1" || sent.GoesOn {
		t.Errorf("sent: %+v", sent)
	}
	if again := expect[client.Event](w, 200, "POST", "/v1/events/arrived", `{"dedup_id":"f1"}`); !again.Deduplicated || again.ID != sent.ID || again.Actor != "ann@desk" {
		t.Errorf("sent again: %+v", again)
	}
	fires := expect[client.FireList](w, 200, "GET", "/v1/schedules/loads/fires", "").Fires
	if len(fires) != 1 || fires[0].Origin != "event" || fires[0].Actor != "event arrived f1" {
		t.Fatalf("fires: %+v", fires)
	}
	if task := expect[client.Task](w, 200, "GET", "/v1/tasks/"+fires[0].Task, ""); string(task.Payload) != `{"n":9007199254740993}` {
		t.Errorf("its task: %s", task.Payload)
	}
	expect[client.Event](w, 201, "POST", "/v1/events/left", "")
	expect[client.Event](w, 201, "POST", "/v1/events/arrived", "")
	page := expect[client.EventList](w, 200, "GET", "/v1/events?name=arrived&limit=1", "")
	rest := expect[client.EventList](w, 200, "GET", "/v1/events?name=arrived&cursor="+page.NextCursor, "")
	if len(page.Events) != 1 || len(rest.Events) != 1 || rest.Events[0].ID != sent.ID {
		t.Errorf("pages: %+v, %+v", page, rest)
	}
	if all := expect[client.EventList](w, 200, "GET", "/v1/events", ""); len(all.Events) != 3 {
		t.Errorf("all: %+v", all)
	}
	wantProblem(t, w.do("POST", "/v1/events/a%20b", ""), 400, job.CodeInvalid, "name")
	wantProblem(t, w.do("POST", "/v1/events/a", `{"id":"x"}`), 400, job.CodeInvalid, "id")
	wantProblem(t, w.do("POST", "/v1/events/a", `{"dedup_id":"`+strings.Repeat("x", 257)+`"}`), 400, job.CodeInvalid, "dedup_id")
	wantProblem(t, w.do("POST", "/v1/events/a", `{"payload":"`+strings.Repeat("x", job.MaxPayload)+`"}`), 413, job.CodeTooLarge, "payload")
	wantProblem(t, w.do("GET", "/v1/events?name=a%20b", ""), 400, job.CodeInvalid, "name")
	wantProblem(t, w.do("GET", "/v1/events?cursor=x", ""), 400, job.CodeInvalid, "cursor")
}

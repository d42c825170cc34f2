package api

import (
	"net/http"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func eventRoutes() []route {
	return []route{
		{
			method: post, path: "/v1/events/:name", handle: (*api).sendEvent,
			summary: "Send an event, which fires the schedules that wait for its name: 201, or 200 where it was sent before with the same dedup_id",
			body:    client.SendEventRequest{}, bodyOptional: true, answer: client.Event{}, statuses: created,
		},
		{
			method: get, path: "/v1/events", handle: (*api).listEvents,
			summary: "List events: of one name the newest first, else by name",
			query:   []string{"name", "limit", "cursor"}, answer: client.EventList{}, statuses: ok,
		},
	}
}

func showEvent(e *fsm.SentEvent) client.Event {
	return client.Event{
		ID: e.ID.String(), Namespace: e.Namespace, Name: e.Name, DedupID: e.Dedup, At: at(e.At), Actor: e.Actor, Address: e.From,
		Fired: e.Fired, Refused: e.Refused, FilteredOut: e.Passed, GoesOn: e.Open,
	}
}

func (a *api) sendEvent(r *request) error {
	name := r.name("name")
	if err := job.ValidateName("name", name); err != nil {
		return err
	}
	var in client.SendEventRequest
	if err := decode(r.body, &in); err != nil {
		return err
	}
	if len(in.Payload) > job.MaxPayload {
		return tooLarge("payload", "must be at most 262144 bytes", "")
	}
	result, wrong := a.propose(r.ctx, fsm.SendEvent{Namespace: r.namespace, Name: name, Dedup: in.DedupID, Payload: in.Payload})
	if wrong != nil {
		return wrong
	}
	out := showEvent(result.Sent)
	out.Deduplicated = !result.Changed
	if out.Deduplicated {
		return write(r, http.StatusOK, out)
	}
	return write(r, http.StatusCreated, out)
}

func (a *api) listEvents(r *request) error {
	name := r.values.Get("name")
	if r.values.Has("name") {
		if err := job.ValidateName("name", name); err != nil {
			return err
		}
	}
	out := client.EventList{Events: []client.Event{}}
	return a.page(r, &out, func(v fsm.Reader, limit int) error {
		list, next, err := fsm.ListEvents(v, r.namespace, name, r.values.Get("cursor"), limit)
		out.NextCursor = next
		for i := range list {
			out.Events = append(out.Events, showEvent(&list[i]))
		}
		return err
	})
}

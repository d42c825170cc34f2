package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// document is what the tests read of the OpenAPI document.
type document struct {
	OpenAPI string `json:"openapi"`
	Info    struct{ Version string }
	Paths   map[string]map[string]struct {
		Summary     string
		Parameters  []struct{ Name, In string }
		RequestBody *struct{ Required bool }
		Responses   map[string]any
	}
	Components struct {
		Schemas map[string]struct {
			Properties           map[string]any
			Required             []string
			AdditionalProperties any
		}
	}
}

func TestOpenAPIHasEveryRouteAndNoOther(t *testing.T) {
	w := newWorld(t)
	doc := expect[document](w, http.StatusOK, "GET", "/v1/openapi.json", "")
	if doc.OpenAPI != "3.1.0" || doc.Info.Version != "test" {
		t.Errorf("%s %s", doc.OpenAPI, doc.Info.Version)
	}
	registered := map[string]bool{}
	for _, r := range w.api.echo.Routes() {
		if r.Method != http.MethodHead {
			registered[strings.ToLower(r.Method)+" "+openAPIPath(r.Path)] = true
		}
	}
	for path, item := range doc.Paths {
		for method, op := range item {
			if !registered[method+" "+path] {
				t.Errorf("%s %s is documented only", method, path)
			}
			delete(registered, method+" "+path)
			if op.Summary == "" || len(op.Responses) < 2 {
				t.Errorf("%s %s: %+v", method, path, op)
			}
			for _, p := range op.Parameters {
				if _, known := paramSchemas[p.Name]; !known && p.In != "header" {
					t.Errorf("%s %s: parameter %s has no schema", method, path, p.Name)
				}
			}
		}
	}
	for r := range registered {
		t.Errorf("%s is not documented", r)
	}
	if again := string(openAPI(routes(), "test")); again != string(w.api.document) {
		t.Error("the document changes from start to start")
	}
}

// filled returns a value with nothing empty, so that its JSON has every field.
func filled(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(filled(t.Elem()))
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				v.Field(i).Set(filled(t.Field(i).Type))
			}
		}
	case reflect.Slice:
		if t == rawMessageType || t == reflect.TypeFor[job.JSON]() {
			v.SetBytes([]byte("1"))
			break
		}
		v.Set(reflect.Append(v, filled(t.Elem())))
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(filled(t.Key()), filled(t.Elem()))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	default:
		switch {
		case v.CanInt():
			v.SetInt(1)
		case v.CanUint():
			v.SetUint(1)
		case v.CanFloat():
			v.SetFloat(1)
		}
	}
	return v
}

func TestOpenAPISchemasAreTheShapes(t *testing.T) {
	w := newWorld(t)
	doc := expect[document](w, http.StatusOK, "GET", "/v1/openapi.json", "")
	shapes := []any{
		client.Explanation{}, client.Reason{}, client.Unmet{}, client.ReconcileRequest{}, client.Believed{}, client.ReconcileResponse{}, client.Reconciled{},
		client.SubmitRequest{}, client.BatchRequest{}, client.BatchResult{}, client.BatchResponse{}, client.Task{}, client.TaskList{},
		client.Attempt{}, client.LateResult{}, client.AttemptList{}, client.RescheduleRequest{}, client.CancelRequest{}, client.Job{},
		client.JobList{}, client.Worker{}, client.WorkerList{}, client.Server{}, client.Cluster{}, client.Stats{}, client.Problem{},
		client.ProblemField{}, client.LogChunk{}, client.DeadLetterList{}, client.DeadLetterFilter{}, client.DeadLetterRequest{}, client.DeadLetterResult{},
		client.DeadLetterError{}, client.DeadLetterAct{}, client.DeadLetterActList{}, client.ComparedList{}, client.ListDifference{}, client.Pause{}, client.JoinRequest{}, client.RemoveRequest{}, client.TransferRequest{},
		client.Transfer{}, client.ClusterCheck{}, client.ServerCheck{}, client.Restored{},
		client.Alert{}, client.AlertList{}, client.AlertSummary{}, client.AckRequest{}, client.Breaker{}, client.BreakerList{}, job.Settings{}, job.Route{}, job.Executor{}, job.Exec{}, job.HTTP{}, job.Limits{}, job.Retry{}, job.NonRetryable{}, health{},
		client.DrainRequest{},
		client.Secret{}, client.SecretList{}, client.SecretRequest{},
		client.Done{}, client.DoneRequest{}, client.Broadcast{}, client.Part{},
		client.Limit{}, client.LimitList{}, client.Holder{}, job.Concurrency{}, job.Rate{},
		client.Callback{}, client.CallbackList{}, client.AuditRecord{}, client.AuditList{},
		client.SendEventRequest{}, client.Event{}, client.EventList{}, client.BackfillRequest{}, client.Backfill{}, client.BackfillList{},
		client.Workflow{}, client.WorkflowSummary{}, client.WorkflowList{}, client.WorkflowVersion{}, client.WorkflowVersionList{},
		job.Param{}, job.Step{}, job.ForEach{}, client.StartRunRequest{}, client.Run{}, client.RunTrigger{}, client.RunStep{},
		client.RunDetail{}, client.RunItem{}, client.RunItemList{}, client.RunList{}, client.RerunRequest{}, client.StepRequest{},
		client.Calendar{}, client.CalendarList{},
		client.Schedule{}, client.ScheduleStatus{}, client.ScheduleWait{}, client.ScheduleUpstream{}, client.SchedulePause{}, client.ScheduleCounts{}, client.ScheduleList{}, client.PauseRequest{},
		client.TriggerRequest{}, client.PlannedTime{}, client.PlannedTimes{}, client.Fire{}, client.FireList{}, job.OnEvent{}, job.After{},
		job.Upstream{}, job.DST{}, job.Calendars{},
	}
	names := map[string]bool{}
	for _, shape := range shapes {
		typ := reflect.TypeOf(shape)
		name := strings.ToUpper(typ.Name()[:1]) + typ.Name()[1:]
		names[name] = true
		encoded, err := json.Marshal(filled(typ).Interface())
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(encoded, &members); err != nil {
			t.Fatal(err)
		}
		schema, known := doc.Components.Schemas[name]
		if !known {
			t.Errorf("%s has no schema", name)
			continue
		}
		for member := range members {
			if schema.Properties[member] == nil {
				t.Errorf("%s.%s is not in the schema", name, member)
			}
		}
		for property := range schema.Properties {
			if members[property] == nil {
				t.Errorf("%s.%s is in the schema only", name, property)
			}
		}
	}
	for name := range doc.Components.Schemas {
		if !names[name] {
			t.Errorf("schema %s is not checked here", name)
		}
	}
	if got := doc.Components.Schemas["SubmitRequest"]; got.AdditionalProperties != false || len(got.Required) != 0 {
		t.Errorf("a request's schema: %+v", got)
	}
	if got := doc.Components.Schemas["Task"]; !slices.Contains(got.Required, "state") || slices.Contains(got.Required, "worker") {
		t.Errorf("an answer's schema requires %v", got.Required)
	}
}

// Every route that takes a body refuses a bad one with a problem, and none of
// it reaches the log.
func TestBadBodies(t *testing.T) {
	w := newWorld(t)
	expect[client.Job](w, 201, "PUT", "/v1/jobs/a", `{"handler":"h"}`)
	task := w.submitted(`{` + execTrue + `,"delay":"1h"}`)
	w.assign(w.submitted(`{`+execTrue+`}`).ID, "a")
	before := w.logged()
	paths := strings.NewReplacer(":id", task.ID, ":name", "a")
	for _, r := range routes() {
		if r.body == nil {
			continue
		}
		for name, body := range map[string]string{
			"cut":           `{`,
			"two documents": `{}{}`,
			"array":         `[]`,
			"number":        `1`,
			"null":          `null`,
			"text":          `"x"`,
			"unknown field": `{"nonsense":1}`,
			"empty name":    `{"":1}`,
			"doubled":       `{"nonsense":1,"nonsense":1}`,
			"bad UTF-8":     "{\"a\":\"\xff\"}",
			"NUL":           "\x00",
			"huge number":   `{"nonsense":1e999999999}`,
			"deep":          strings.Repeat(`{"a":`, 20_000) + `1` + strings.Repeat(`}`, 20_000),
			"HTML":          `<script>alert(1)</script>`,
			"form":          `job=a&payload=1`,
		} {
			rec := w.do(r.method, paths.Replace(r.path), body)
			if rec.Code != http.StatusBadRequest {
				t.Errorf("%s %s, %s: %d %s", r.method, r.path, name, rec.Code, rec.Body)
				continue
			}
			p := decoded[client.Problem](t, http.StatusBadRequest, rec)
			if p.Code != job.CodeInvalid || p.Detail == "" || len(p.Detail) > 600 {
				t.Errorf("%s %s, %s: %s", r.method, r.path, name, rec.Body)
			}
		}
		if !r.bodyOptional {
			wantProblem(t, w.do(r.method, paths.Replace(r.path), ""), http.StatusBadRequest, job.CodeInvalid, "body")
		}
		wrongTypes(t, w, r, paths.Replace(r.path))
	}
	if w.logged() != before {
		t.Errorf("%d commands reached the log", w.logged()-before)
	}
}

// wrongTypes sends each field of a route's body with values of every other kind.
func wrongTypes(t *testing.T, w *world, r route, path string) {
	t.Helper()
	for name, f := range fieldsOf(reflect.TypeOf(r.body)) {
		if f.typ == rawMessageType || f.typ == reflect.TypeFor[job.JSON]() {
			continue // takes anything
		}
		for _, value := range []string{`{"nonsense":[]}`, `[[]]`, `[null]`, `-1e999`, `9223372036854775808`, `"\udfff"`, `true`} {
			typ := f.typ
			for typ.Kind() == reflect.Pointer {
				typ = typ.Elem()
			}
			if typ == reflect.TypeFor[job.Values]() && value[0] == '{' || (typ.Kind() == reflect.Bool && value == `true`) || (name == "tasks" && typ.Kind() == reflect.Slice && value[0] == '[') ||
				(typ.Kind() == reflect.Uint64 && value == `9223372036854775808`) {
				continue
			}
			rec := w.do(r.method, path, `{"`+name+`":`+value+`}`)
			if rec.Code != http.StatusBadRequest {
				t.Errorf("%s %s %s = %s: %d %s", r.method, r.path, name, value, rec.Code, rec.Body)
				continue
			}
			p := decoded[client.Problem](t, http.StatusBadRequest, rec)
			if !strings.HasPrefix(p.Field, name) {
				t.Errorf("%s %s = %s: field %q", r.path, name, value, p.Field)
			}
		}
	}
}

// A number has a unit, and what is left out a default, that names don't tell.
func TestOpenAPIDescribesUnitsAndDefaults(t *testing.T) {
	w := newWorld(t)
	doc := expect[struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Description string `json:"description"`
				} `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}](w, http.StatusOK, "GET", "/v1/openapi.json", "")
	for _, tt := range []struct{ schema, field, want string }{
		{"Limits", "memory", "bytes"}, {"Limits", "cpu", "cores"},
		{"SubmitRequest", "success_codes", "exit codes (default 0)"}, {"Job", "on_disconnect", "kill (default)"},
	} {
		if got := doc.Components.Schemas[tt.schema].Properties[tt.field].Description; !strings.Contains(got, tt.want) {
			t.Errorf("%s.%s: %q, want …%s…", tt.schema, tt.field, got, tt.want)
		}
	}
}

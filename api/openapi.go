package api

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// object is a JSON object of the document; its members are written in the order
// of their names, so the document is the same at each start.
type object = map[string]any

// openAPI builds the OpenAPI 3.1 document from the routes and the shapes that
// they name.
func openAPI(all []route, version string) []byte {
	s := schemas{components: object{}, inputs: map[reflect.Type]bool{}}
	for _, r := range all {
		s.markInput(reflect.TypeOf(r.body))
	}
	s.of(reflect.TypeFor[client.LogChunk]()) // only met inside a stream
	paths := object{}
	for _, r := range all {
		path := openAPIPath(r.path)
		item, found := paths[path].(object)
		if !found {
			item = object{}
			paths[path] = item
		}
		item[strings.ToLower(r.method)] = s.operation(r)
	}
	doc := object{
		"openapi":    "3.1.0",
		"info":       object{"title": "axd", "version": cmp.Or(version, "unknown"), "description": description},
		"paths":      paths,
		"components": object{"schemas": s.components},
	}
	b, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		panic(err) // strings, numbers and maps alone: a programmer's error
	}
	return append(b, '\n')
}

const description = "A task scheduler without a database. Unknown fields and parameters are refused by name; " +
	"errors are RFC 9457 problem documents with a stable code. Any server takes any request."

var pathParam = regexp.MustCompile(`:([a-z]+)`)

// openAPIPath writes echo's :id as {id}.
func openAPIPath(path string) string { return pathParam.ReplaceAllString(path, "{$1}") }

// paramSchemas describes query parameters, and in a path id and name.
var paramSchemas = map[string]object{
	"id":          {"type": "string", "description": "a ULID of 26 characters"},
	"name":        {"type": "string"},
	"namespace":   {"type": "string", "default": job.DefaultNamespace},
	"consistency": {"type": "string", "enum": []string{"linearizable", "stale"}, "default": "linearizable"},
	"limit":       {"type": "integer", "minimum": 1, "maximum": fsm.MaxPage, "default": defaultPage, "description": "entries of a page"},
	"cursor":      {"type": "string", "description": "next_cursor of the page before"},
	"state":       {"type": "string", "enum": shownStates()},
	"job":         {"type": "string"},
	"worker":      {"type": "string", "description": "tasks whose active attempt is this worker's"},
	"app":         {"type": "string"},
	"owner":       {"type": "string"},
	"from":        timeParam("execute_time at or after"),
	"to":          timeParam("execute_time before"),
	"after":       timeParam("created after"),
	"force":       {"type": "boolean", "default": false, "description": "even where something is lost"},
	"follow":      {"type": "boolean", "default": false, "description": "stream as text/event-stream"},
	"attempt":     {"type": "integer", "minimum": 1, "description": "default: the latest"},
	"stream":      {"type": "string", "enum": []string{"stdout", "stderr"}, "description": "default: stdout, then stderr"},
	"callback":    {"type": "string", "description": "a task's id, - and a number"},
	"kind":        {"type": "string", "description": "of an alert, or of what was acted on, such as job, task, worker"},
	"act":         {"type": "string", "description": "the id of a replay or discard of many dead letters"},
	"error":       {"type": "string", "description": "part of the last error's text"},
	"subject":     {"type": "string"},
	"count":       {"type": "integer", "minimum": 1, "maximum": fsm.MaxPage, "default": 10},
	"verdict":     {"type": "string", "enum": []string{plannedVerdict, "queued", "waiting", "fired", "merged", "skipped", "missed"}},
	"actor":       {"type": "string", "description": "as who sent it called themselves"},
	"verb":        {"type": "string", "description": "such as put, delete, cancel"},
	"object":      {"type": "string", "description": "name of the object; needs kind"},
	"run":         {"type": "string", "description": "tasks of this run's steps"},
	"workflow":    {"type": "string"},
	"version":     {"type": "integer", "minimum": 1, "description": "default: the newest"},
	"step":        {"type": "string"},

	"fencing_token": {"type": "string", "description": "32 hexadecimal digits"},
	"parent":        {"type": "string", "description": "tasks that are parts of this broadcast"},
}

// runStates is what state means to GET /v1/runs.
var runStates = object{"type": "string", "enum": []string{
	job.RunRunning.String(), job.RunSuccess.String(), job.RunFailed.String(), job.RunTimedOut.String(), job.RunCancelled.String(),
}}

// callbackStates is what state means to GET /v1/callbacks.
var callbackStates = object{"type": "string", "enum": []string{
	fsm.CallbackOwed.String(), fsm.CallbackDelivered.String(), fsm.CallbackDead.String(),
}}

// alertStates is what state means to GET /v1/alerts.
var alertStates = object{"type": "string", "enum": []string{
	fsm.AlertOpen.String(), fsm.AlertAcknowledged.String(), fsm.AlertResolved.String(),
}}

func timeParam(meaning string) object {
	return object{"type": "string", "description": meaning + `; RFC 3339 ("+" as %2B) or whole seconds since 1970`}
}

// shownStates lists the API's states of a task.
func shownStates() []string {
	names := []string{string(job.ShownScheduled), string(job.ShownWaiting), string(job.ShownRetrying)}
	for _, s := range job.States {
		if s != job.Pending {
			names = append(names, s.String())
		}
	}
	return names
}

// operation describes one route.
func (s *schemas) operation(r route) object {
	var params []object
	for _, m := range pathParam.FindAllStringSubmatch(r.path, -1) {
		params = append(params, object{"name": m[1], "in": "path", "required": true, "schema": paramSchemas[m[1]]})
	}
	query := append([]string{"namespace"}, r.query...)
	if r.method == http.MethodGet {
		query = append(query, "consistency")
	}
	slices.Sort(query)
	for _, name := range query {
		schema := paramSchemas[name]
		if _, ok := r.answer.(client.AlertList); ok && name == "state" {
			schema = alertStates
		}
		if _, ok := r.answer.(client.CallbackList); ok && name == "state" {
			schema = callbackStates
		}
		if _, ok := r.answer.(client.RunList); ok {
			schema = runParam(name, schema)
		}
		params = append(params, object{"name": name, "in": "query", "schema": schema})
	}
	responses := object{"default": object{
		"description": "An error",
		"content":     object{"application/problem+json": object{"schema": s.of(reflect.TypeFor[client.Problem]())}},
	}}
	for _, status := range r.statuses {
		response := object{"description": http.StatusText(status)}
		switch {
		case r.answer != nil:
			response["content"] = object{"application/json": object{"schema": s.of(reflect.TypeOf(r.answer))}}
		case r.media != "":
			response["content"] = mediaContent(r)
		}
		responses[strconv.Itoa(status)] = response
	}
	op := object{"summary": r.summary, "parameters": params, "responses": responses}
	if r.body != nil {
		op["requestBody"] = object{
			"required": !r.bodyOptional,
			"content":  object{"application/json": object{"schema": s.of(reflect.TypeOf(r.body))}},
		}
	}
	if r.bodyMedia != "" {
		op["requestBody"] = object{"required": true, "content": object{r.bodyMedia: object{}}}
	}
	if (r.path == "/v1/tasks" || r.path == "/v1/workflows/:name/runs") && r.method == http.MethodPost {
		op["parameters"] = append(params, object{
			"name": idempotencyHeader, "in": "header", "schema": object{"type": "string", "maxLength": job.MaxIdempotencyKey},
			"description": "the same as idempotency_key in the body",
		})
	}
	return op
}

// runParam is what a parameter means to GET /v1/runs.
func runParam(name string, schema object) object {
	switch name {
	case "state":
		return runStates
	case "from":
		return timeParam("created at or after")
	case "to":
		return timeParam("created before")
	}
	return schema
}

func mediaContent(r route) object {
	content := object{r.media: object{}}
	if r.stream {
		content["text/event-stream"] = object{}
	}
	return content
}

// schemas gathers the shapes that routes name.
type schemas struct {
	components object
	inputs     map[reflect.Type]bool // shapes that a request may hold
}

// markInput notes a shape, and those inside it, as part of a request: there no
// field is always given, and unknown ones are refused.
func (s *schemas) markInput(t reflect.Type) {
	if t == nil || s.inputs[t] || ownSchema(t) != nil {
		return
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		s.markInput(t.Elem())
	case reflect.Struct:
		s.inputs[t] = true
		for _, f := range fieldsOf(t) {
			s.markInput(f.typ)
		}
	}
}

// of returns the schema of a Go type; that of a named struct is a reference.
func (s *schemas) of(t reflect.Type) object {
	if own := ownSchema(t); own != nil {
		return own
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		if t.Name() == "" {
			return s.structure(t)
		}
		name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
		if _, known := s.components[name]; !known {
			s.components[name] = object{} // holds the place, should the type contain itself
			s.components[name] = s.structure(t)
		}
		return object{"$ref": "#/components/schemas/" + name}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64, reflect.Float32:
		return object{"type": "number"}
	default:
		return object{"type": "integer"}
	}
}

func (s *schemas) structure(t reflect.Type) object {
	properties := object{}
	var required []string
	for name, f := range fieldsOf(t) {
		schema := s.of(f.typ)
		if values := fieldValues[t][name]; values != nil {
			schema = object{"type": "string", "enum": values}
		}
		if meaning := fieldMeanings[declarer(t, f)][name]; meaning != "" {
			schema = maps.Clone(schema)
			schema["description"] = meaning
		}
		properties[name] = schema
		if !f.optional {
			required = append(required, name)
		}
	}
	out := object{"type": "object", "properties": properties}
	if s.inputs[t] {
		out["additionalProperties"] = false
		return out
	}
	slices.Sort(required)
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// fieldValues are the values of fields whose Go type is any string.
var fieldValues = map[reflect.Type]map[string][]string{
	reflect.TypeFor[client.Worker](): {
		"state": {workerAlive, workerDraining, workerSuspect, workerLost, workerStopped},
	},
}

// fieldMeanings are the descriptions of fields whose unit or default their name
// and type don't tell.
var fieldMeanings = map[reflect.Type]map[string]string{
	reflect.TypeFor[job.Limits](): {
		"cpu":    "cores, such as 0.5; 0 or absent: no limit. Needs a worker with a cgroup of its own",
		"memory": "bytes, such as 67108864 for 64 MiB; 0 or absent: no limit",
	},
	reflect.TypeFor[job.Policy](): {
		"success_codes":     "exit codes (default 0) or HTTP statuses (default 200 to 299)",
		"idempotent":        "two attempts may run at one time, so that a silent worker's tasks are moved within seconds, before its lease ends",
		"on_disconnect":     "what a worker that lost the servers does: kill (default), or continue, which needs a timeout",
		"compensation":      "the job to run when the task has failed for good; its payload tells of the failure",
		"fairness_key":      "within a priority and namespace, tasks of different keys take turns",
		"on_exhausted":      "what becomes of a task that failed for good: dead_letter (default), or ignore",
		"timeout":           "of one attempt; absent: no limit",
		"queue_timeout":     "how long a due task may wait for a worker, before each attempt; absent: no limit",
		"total_timeout":     "of all attempts together and the pauses between them, from when the task is first due; absent: no limit",
		"heartbeat_timeout": "how long an attempt may be silent, at least 1s; absent: it need not send heartbeats. Not for http",
		"grace":             "from TERM to KILL; default 5s, at most 1h",
		"callback_url":      "sent the result of a task that has ended, at least once",
		"callback_job":      "run with the result of a task that has ended as payload; excludes callback_url",
		"callback_secret":   "the secret that requests to callback_url are signed with; see /v1/secrets",
		"callback_on":       "only where it ended so: success, failed, timeout, cancelled; default: however it ended",
	},
	reflect.TypeFor[job.Retry](): {
		"max_retries": "0 to 1000, default 5",
		"initial":     "delay before the first retry; default 2s",
		"factor":      "of exponential alone; default 2",
		"cap":         "the longest delay; default 5m",
		"jitter":      `additive (up to the delay on top), full (from 0 to the delay), none, or a percentage such as "25%"; never above the cap`,
	},
	reflect.TypeFor[job.Step](): {
		"job":           "the job that the step runs; exactly one of job and workflow",
		"needs":         "steps of the same section",
		"allow_failure": "that the step failed doesn't make the run fail; to the rules of the steps that need it, it has failed",
	},
	reflect.TypeFor[job.WorkflowSpec](): {
		"timeout":      "of a whole run; absent: no limit",
		"max_parallel": "tasks of a run that are active at once; absent: no limit",
		"on_failure":   "steps that run once a step has failed and no other will start",
		"finally":      "steps that run at the end of every run",
	},
	reflect.TypeFor[job.ScheduleSpec](): {
		"reconcile_url":    "instead of job and workflow: a list to fetch (GET) and compare, a document as POST /v1/reconcile takes it, without replay",
		"reconcile_secret": "the secret that requests to reconcile_url are signed with; see /v1/secrets",
		"reconcile_replay": "submit what is missing, and replay what failed",
	},
	reflect.TypeFor[job.NonRetryable](): {
		"errors": "classes of errors: timeout, lost, panic, network, start, or what a handler names",
	},
}

// declarer is the struct that a field of t stands in: t, or one that t embeds.
func declarer(t reflect.Type, f field) reflect.Type {
	if n := len(f.index) - 1; n > 0 {
		return t.FieldByIndex(f.index[:n]).Type
	}
	return t
}

// ownSchema is the schema of a type with a JSON form of its own, else nil.
func ownSchema(t reflect.Type) object {
	switch t {
	case rawMessageType, reflect.TypeFor[job.JSON]():
		return object{"description": "any JSON value, kept byte for byte"}
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[job.Duration]():
		return object{"type": "string", "examples": []string{"90s", "1h30m", "7d"}}
	case reflect.TypeFor[job.Priority]():
		return object{"type": "string", "enum": []string{"high", "normal", "low"}}
	case reflect.TypeFor[job.OnDisconnect]():
		return object{"type": "string", "enum": []string{string(job.DisconnectKill), string(job.DisconnectContinue)}}
	case reflect.TypeFor[job.Strategy]():
		return object{"type": "string", "enum": []string{string(job.StrategyExponential), string(job.StrategyLinear), string(job.StrategyFixed)}}
	case reflect.TypeFor[job.Jitter]():
		return object{"type": []string{"string", "number"}, "examples": []string{"additive", "full", "none", "25%"}}
	case reflect.TypeFor[job.HTTPStatus]():
		return object{"type": []string{"string", "integer"}, "examples": []string{"404", "4xx"}}
	case reflect.TypeFor[job.OnExhausted]():
		return object{"type": "string", "enum": []string{string(job.ExhaustedDeadLetter), string(job.ExhaustedIgnore)}}
	case reflect.TypeFor[job.Rule]():
		return object{"type": "string", "enum": job.Rules, "default": job.AllSuccess}
	case reflect.TypeFor[job.Timestamp]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[job.Overlap]():
		return texts(job.OverlapSkip, job.OverlapQueueOne, job.OverlapLatest, job.OverlapQueueAll, job.OverlapCancelOther, job.OverlapAllow)
	case reflect.TypeFor[job.Misfire]():
		return texts(job.MisfireNone, job.MisfireLatest, job.MisfireAll)
	case reflect.TypeFor[job.Period]():
		return texts(job.PeriodHour, job.PeriodDay, job.PeriodWeek, job.PeriodMonth, job.PeriodYear)
	case reflect.TypeFor[job.Shift]():
		return texts(job.ShiftNone, job.ShiftNext, job.ShiftPrevious)
	case reflect.TypeFor[job.DSTGap]():
		return texts(job.GapAfter, job.GapSkip)
	case reflect.TypeFor[job.DSTRepeat]():
		return texts(job.RepeatFirst, job.RepeatSecond, job.RepeatBoth)
	case reflect.TypeFor[job.Code]():
		return object{"type": "string", "enum": codes()}
	}
	return nil
}

// texts is the schema of a text that is one of several.
func texts[T ~string](all ...T) object {
	values := make([]string, 0, len(all))
	for _, v := range all {
		values = append(values, string(v))
	}
	return object{"type": "string", "enum": values}
}

// codes lists the codes of errors.
func codes() []string {
	var names []string
	for code := range answers {
		names = append(names, string(code))
	}
	slices.Sort(names)
	return names
}

package api

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/internal/expression"
	"github.com/axd-project/axd/job"
)

func workflowRoutes() []route {
	return []route{
		{
			method: get, path: "/v1/workflows", handle: (*api).listWorkflows, summary: "List workflows by name, without their steps",
			query: pageParams, answer: client.WorkflowList{}, statuses: ok,
		},
		{
			method: put, path: "/v1/workflows/:name", handle: (*api).putWorkflow,
			summary: "Create a workflow (201), or give it a new version where it differs; what a GET adds to the definition is left aside",
			body:    client.Workflow{}, limit: job.MaxWorkflowBytes, answer: client.Workflow{}, statuses: created,
		},
		{
			method: get, path: "/v1/workflows/:name", handle: (*api).getWorkflow, query: []string{"version"},
			summary: "Show a workflow with its steps and the number of its runs by state", answer: client.Workflow{}, statuses: ok,
		},
		{
			method: get, path: "/v1/workflows/:name/versions", handle: (*api).listWorkflowVersions,
			summary: "List the versions that are kept, the newest first: the last 100, and those that runs use",
			answer:  client.WorkflowVersionList{}, statuses: ok,
		},
		{
			method: del, path: "/v1/workflows/:name", handle: (*api).deleteWorkflow,
			summary: "Delete a workflow that nothing names; its runs go on with the versions they have", statuses: noContent,
		},
		{
			method: post, path: "/v1/workflows/:name/runs", handle: (*api).startRun,
			summary: "Start a run of the newest version (201), or answer with the first where its idempotency key was used before with the same body (200)",
			body:    client.StartRunRequest{}, bodyOptional: true, answer: client.Run{}, statuses: created,
		},
	}
}

// putWorkflow creates a workflow or gives it a new version; see putJob.
func (a *api) putWorkflow(r *request) error {
	var in client.Workflow
	name, err := r.readDefinition(&in, head{&in.Name, &in.Namespace, &in.FileSet})
	if err != nil {
		return err
	}
	if err := in.WorkflowSpec.Validate(); err != nil {
		return err
	}
	if err := expression.CheckWorkflow(&in.WorkflowSpec); err != nil {
		return err
	}
	out := client.Workflow{Namespace: r.namespace, Name: name, WorkflowSpec: in.WorkflowSpec}
	put := fsm.PutWorkflow{Namespace: r.namespace, Name: name, Spec: in.WorkflowSpec, FileSet: in.FileSet}
	status, err := a.storeDefinition(r, put, &out.Version, func(v fsm.Reader) {
		if w, ok := fsm.GetWorkflow(v, r.namespace, name); ok && w.Version == out.Version {
			out = showWorkflow(w)
		}
	})
	if err != nil {
		return err
	}
	out.Warnings = in.WorkflowSpec.Warnings()
	return write(r, status, out)
}

func (a *api) getWorkflow(r *request) error {
	name := r.name("name")
	version, wrong := r.version()
	if wrong != nil {
		return wrong
	}
	var out client.Workflow
	return a.answer(r, &out, func(v fsm.Reader) error {
		w, ok := fsm.GetWorkflow(v, r.namespace, name)
		if version != 0 {
			w, ok = fsm.GetWorkflowVersion(v, r.namespace, name, version)
		}
		if !ok {
			return job.NotFound("name", name)
		}
		out = showWorkflow(w)
		out.Runs = showRunCounts(fsm.CountRuns(v, r.namespace, name))
		return nil
	})
}

// version reads the parameter version; 0: absent.
func (r *request) version() (uint64, *job.Error) {
	if !r.values.Has("version") {
		return 0, nil
	}
	n, err := strconv.ParseUint(r.values.Get("version"), 10, 64)
	if err != nil || n == 0 {
		return 0, job.Invalid("version", "must be a whole number from 1 on", r.values.Get("version"))
	}
	return n, nil
}

func (a *api) listWorkflows(r *request) error {
	var out client.WorkflowList
	return a.page(r, &out, func(v fsm.Reader, limit int) error {
		all, next, err := fsm.ListWorkflows(v, r.namespace, r.values.Get("cursor"), limit)
		if err != nil {
			return err
		}
		out = client.WorkflowList{Workflows: make([]client.WorkflowSummary, 0, len(all)), NextCursor: next}
		for _, w := range all {
			out.Workflows = append(out.Workflows, client.WorkflowSummary{
				Namespace: w.Namespace, Name: w.Name, Description: w.Description, App: w.App, Owner: w.Owner,
				Version: w.Version, StepCount: w.Steps, CreatedAt: instant(w.Created), UpdatedAt: instant(w.Updated),
				FileSet: w.FileSet,
			})
		}
		return nil
	})
}

func (a *api) listWorkflowVersions(r *request) error {
	name := r.name("name")
	var out client.WorkflowVersionList
	return a.answer(r, &out, func(v fsm.Reader) error {
		out.Versions = nil
		for _, version := range fsm.ListWorkflowVersions(v, r.namespace, name) {
			out.Versions = append(out.Versions, client.WorkflowVersion{Version: version.Version, CreatedAt: at(version.Created)})
		}
		if len(out.Versions) == 0 {
			return job.NotFound("name", name)
		}
		slices.Reverse(out.Versions)
		return nil
	})
}

func (a *api) deleteWorkflow(r *request) error {
	if _, err := a.propose(r.ctx, fsm.DeleteWorkflow{Namespace: r.namespace, Name: r.name("name")}); err != nil {
		return err
	}
	return r.NoContent(http.StatusNoContent)
}

func (a *api) startRun(r *request) error {
	name := r.name("name")
	key, wrong := headerKey(r.Request().Header)
	if wrong != nil {
		return wrong
	}
	var in client.StartRunRequest
	if wrong := decode(r.body, &in); wrong != nil {
		return wrong
	}
	switch {
	case key == "":
		key = in.IdempotencyKey
	case in.IdempotencyKey != "" && key != in.IdempotencyKey:
		return job.Invalid("idempotency_key", "must equal the Idempotency-Key header, or be absent", in.IdempotencyKey)
	}
	params, wrong := compactParams(in.Params)
	if wrong != nil {
		return wrong
	}
	result, wrong := a.propose(r.ctx, fsm.StartRun{
		Namespace: r.namespace, Workflow: name, Params: params, Priority: in.Priority, Key: key,
		Trigger: fsm.RunTrigger{Kind: "manual", Actor: actorOf(r.ctx)},
	})
	if wrong != nil {
		return wrong
	}
	out := showRun(result.Run)
	out.Deduplicated = new(!result.Changed)
	location := "/v1/runs/" + out.ID
	if r.namespace != job.DefaultNamespace {
		location += "?namespace=" + url.QueryEscape(r.namespace)
	}
	r.Response().Header().Set("Location", location)
	if !result.Changed {
		return write(r, http.StatusOK, out)
	}
	return write(r, http.StatusCreated, out)
}

// compactParams reads an object of parameters; null and {} are none.
func compactParams(raw json.RawMessage) ([]byte, *job.Error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] != '{' {
		return nil, wrongKind(raw, "an object").At("params")
	}
	if skipBlank(raw, 1) == len(raw)-1 {
		return nil, nil
	}
	return raw, nil
}

func showWorkflow(w fsm.Workflow) client.Workflow {
	return client.Workflow{
		Namespace: w.Namespace, Name: w.Name, WorkflowSpec: *w.Spec, Version: w.Version,
		CreatedAt: instant(w.Created), UpdatedAt: instant(w.Updated), FileSet: w.FileSet,
	}
}

// showRunCounts names counters by their state, those that are zero too.
func showRunCounts(counts fsm.RunStateCounts) map[string]int64 {
	out := make(map[string]int64, len(job.RunStates))
	for _, s := range job.RunStates {
		out[s.String()] = counts[s]
	}
	return out
}

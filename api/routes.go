package api

import (
	"net/http"

	"github.com/axd-project/axd/client"
)

const (
	get  = http.MethodGet
	post = http.MethodPost
	put  = http.MethodPut
	del  = http.MethodDelete
)

var (
	pageParams = []string{"limit", "cursor"}
	ok         = []int{http.StatusOK}
	created    = []int{http.StatusCreated, http.StatusOK}
	noContent  = []int{http.StatusNoContent}
)

// routes is every endpoint. What is registered and what the OpenAPI document
// says both come from here.
func routes() []route {
	all := append(taskRoutes(), jobRoutes()...)
	all = append(all, workflowRoutes()...)
	all = append(all, runRoutes()...)
	all = append(all, calendarRoutes()...)
	all = append(all, reconcileRoutes()...)
	all = append(all, workerRoutes()...)
	all = append(all, deadLetterRoutes()...)
	all = append(all, callbackRoutes()...)
	all = append(all, scheduleRoutes()...)
	all = append(all, eventRoutes()...)
	all = append(all, backfillRoutes()...)
	all = append(all, auditRoutes()...)
	all = append(all, secretRoutes()...)
	all = append(all, doneRoutes()...)
	all = append(all, operationRoutes()...)
	return append(all, serverRoutes()...)
}

func taskRoutes() []route {
	return []route{
		{
			method: post, path: "/v1/tasks", handle: (*api).submit,
			summary: "Submit a task: 201, or 200 and the first task where the idempotency key was used before with the same body; idempotency_policy says what else a used key may get",
			body:    client.SubmitRequest{}, answer: client.Task{}, statuses: created, submits: true,
		},
		{
			method: get, path: "/v1/tasks", handle: (*api).listTasks,
			summary: "List tasks; a page may be short, even empty, while next_cursor is set",
			query:   listParams, answer: client.TaskList{}, statuses: ok,
		},
		{
			method: post, path: "/v1/tasks/batch", handle: (*api).submitBatch,
			summary: "Submit up to 10,000 tasks, each on its own: one result each, in order",
			body:    client.BatchRequest{}, limit: maxBatchBody, answer: client.BatchResponse{}, statuses: ok, submits: true,
		},
		{
			method: get, path: "/v1/tasks/:id", handle: (*api).getTask,
			summary: "Show a task with its payload",
			answer:  client.Task{}, statuses: ok,
		},
		{
			method: get, path: "/v1/tasks/:id/attempts", handle: (*api).listAttempts,
			summary: "List the kept attempts of a task, oldest first",
			answer:  client.AttemptList{}, statuses: ok,
		},
		{
			method: get, path: "/v1/tasks/:id/logs", handle: (*api).taskLogs,
			summary: "Read the kept end of an attempt's output as text, or with follow=true stream the current attempt: " +
				"events chunk (LogChunk), then end (Task), or problem (Problem)",
			query: []string{"follow", "attempt", "stream"}, media: "text/plain; charset=utf-8", statuses: ok, stream: true,
		},
		{
			method: get, path: "/v1/tasks/:id/explain", handle: (*api).explainTask,
			summary: "Tell why a task isn't running, or why it ended so: what has to go away first comes first. " +
				"Answered also where there is no leader",
			answer: client.Explanation{}, statuses: ok,
		},
		{
			method: post, path: "/v1/tasks/:id/cancel", handle: (*api).cancelTask,
			summary: "Cancel a task; of an active one cancel_requested is set until its attempt has ended",
			body:    client.CancelRequest{}, bodyOptional: true, answer: client.Task{}, statuses: ok,
		},
		{
			method: post, path: "/v1/tasks/:id/reschedule", handle: (*api).rescheduleTask,
			summary: "Move a task that has not started to another time or priority; of an armed one reschedule_requested is " +
				"set until its worker has given it back, or reschedule_too_late, where it had started",
			body: client.RescheduleRequest{}, answer: client.Task{}, statuses: ok,
		},
	}
}

func reconcileRoutes() []route {
	return []route{{
		method: post, path: "/v1/reconcile", handle: (*api).reconcile,
		summary: "Compare up to 1,000 idempotency keys and the states that the caller believes in with what is; with replay submit " +
			"the tasks that are missing and replay what failed",
		body: client.ReconcileRequest{}, limit: maxBatchBody, answer: client.ReconcileResponse{}, statuses: ok,
	}}
}

func jobRoutes() []route {
	return []route{
		{
			method: get, path: "/v1/jobs", handle: (*api).listJobs, summary: "List jobs by name",
			query: pageParams, answer: client.JobList{}, statuses: ok,
		},
		{
			method: put, path: "/v1/jobs/:name", handle: (*api).putJob,
			summary: "Create a job (201), or give it a new version where it differs; version, times and counts in the body are left aside",
			body:    client.Job{}, answer: client.Job{}, statuses: created,
		},
		{
			method: get, path: "/v1/jobs/:name", handle: (*api).getJob, summary: "Show a job with its number of tasks by stored state",
			answer: client.Job{}, statuses: ok,
		},
		{
			method: del, path: "/v1/jobs/:name", handle: (*api).deleteJob, summary: "Delete a job that has no task left to run and that nothing names",
			statuses: noContent,
		},
		{
			method: post, path: "/v1/jobs/:name/pause", handle: (*api).pauseJob, answer: client.Job{}, statuses: ok,
			summary: "Give none of a job's tasks to workers; what runs is left alone", body: client.PauseRequest{}, bodyOptional: true,
		},
		{
			method: post, path: "/v1/jobs/:name/resume", handle: (*api).resumeJob, summary: "End a pause",
			body: struct{}{}, bodyOptional: true, answer: client.Job{}, statuses: ok,
		},
	}
}

func workerRoutes() []route {
	return []route{
		{
			method: get, path: "/v1/workers", handle: (*api).listWorkers, summary: "List workers by name",
			query: pageParams, answer: client.WorkerList{}, statuses: ok,
		},
		{
			method: post, path: "/v1/workers/:name/drain", handle: (*api).drainWorker, summary: "Give a worker no further attempts",
			body: client.DrainRequest{}, bodyOptional: true, answer: client.Worker{}, statuses: ok,
		},
		{
			method: post, path: "/v1/workers/:name/resume", handle: (*api).resumeWorker, summary: "End a drain",
			body: struct{}{}, bodyOptional: true, answer: client.Worker{}, statuses: ok,
		},
		{
			method: del, path: "/v1/workers/:name", handle: (*api).forgetWorker, summary: "Forget a lost worker that holds no attempt",
			statuses: noContent,
		},
	}
}

func serverRoutes() []route {
	alive := "Tell that the process answers"
	return []route{
		{
			method: get, path: "/v1/cluster", handle: (*api).getCluster, statuses: ok, answer: client.Cluster{},
			summary: "Describe servers, leadership and workers as this server knows them, with or without a leader",
		},
		{
			method: get, path: "/v1/breakers", handle: (*api).listBreakers, statuses: ok, answer: client.BreakerList{},
			summary: "List what has failed in a row: of workers, of workers and jobs, of HTTP targets",
		},
		{
			method: get, path: "/v1/alerts", handle: (*api).listAlerts, statuses: ok, answer: client.AlertList{},
			summary: "List alerts, the latest changes first", query: []string{"state", "limit"},
		},
		{
			method: post, path: "/v1/alerts/:kind/:subject/ack", handle: (*api).ackAlert, statuses: ok, answer: client.Alert{},
			summary: "Acknowledge an alert; raised again it opens again", body: client.AckRequest{}, bodyOptional: true,
		},
		{
			method: get, path: "/v1/limits", handle: (*api).listLimits, statuses: ok, answer: client.LimitList{},
			summary: "List the concurrency limits that attempts hold, with their holders", query: pageParams,
		},
		{
			method: get, path: "/v1/stats", handle: (*api).getStats, statuses: ok, answer: client.Stats{},
			summary: "Count tasks by stored state, of all namespaces unless one is given, and workers by state",
		},
		{
			method: get, path: "/v1/openapi.json", handle: (*api).openAPI, statuses: ok, media: "application/json",
			summary: "This document",
		},
		{method: get, path: "/healthz", handle: (*api).live, summary: alive, answer: health{}, statuses: ok, probe: true},
		{method: get, path: "/livez", handle: (*api).live, summary: alive, answer: health{}, statuses: ok, probe: true},
		{
			method: get, path: "/readyz", handle: (*api).ready, answer: health{}, statuses: ok, probe: true,
			summary: "Tell whether this server knows a leader and has caught up",
		},
		{
			method: get, path: "/metrics", handle: (*api).getMetrics, statuses: ok, media: "text/plain", probe: true,
			summary: "Metrics for Prometheus",
		},
	}
}

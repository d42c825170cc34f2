package api

import (
	"net/http"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func TestTasksShowTheirSchedule(t *testing.T) {
	w := newFlowWorld(t)
	ctx := t.Context()
	if _, err := w.Propose(ctx, fsm.PutSchedule{Namespace: "default", Name: "s", Spec: job.ScheduleSpec{Job: "j"}}); err != nil {
		t.Fatal(err)
	}
	r, err := w.Propose(ctx, fsm.TriggerSchedule{Namespace: "default", Name: "s"})
	if err != nil || r.Err != nil {
		t.Fatal(err, r.Err)
	}
	path := "/v1/tasks/" + r.Fire.Task.String()
	task := expect[client.Task](w, http.StatusOK, "GET", path, "")
	if task.Schedule != "s" || task.NominalTime == nil || task.NominalTime.UnixMilli() != r.Fire.Nominal {
		t.Errorf("%+v", task)
	}
	why := expect[client.Explanation](w, http.StatusOK, "GET", path+"/explain", "")
	if why.Schedule != "s" || why.NominalTime == nil || !why.NominalTime.Equal(*task.NominalTime) {
		t.Errorf("%+v", why)
	}
}

package api

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// Operations are what an operator asks of the servers. Any server takes them.
type Operations interface {
	// JoinServer adds a new server that waits at an address.
	JoinServer(ctx context.Context, name, address string) error
	// RemoveServer removes a server. A conflict tells why it may not go.
	RemoveServer(ctx context.Context, name string, force bool) error
	// TransferLeadership hands leadership to a server, for an empty name to
	// whichever lacks least, and returns once that one leads.
	TransferLeadership(ctx context.Context, to string) (client.Transfer, error)
	// CheckCluster compares what the servers hold.
	CheckCluster(ctx context.Context) (client.ClusterCheck, error)
	// SaveSnapshot calls begin once with the size and writes the snapshot there.
	SaveSnapshot(ctx context.Context, begin func(size int64) io.Writer) error
	// RestoreSnapshot replaces the state of the cluster by the one in r.
	RestoreSnapshot(ctx context.Context, r io.Reader, force bool) (client.Restored, error)
}

const (
	snapshotPath  = "/v1/snapshot"
	mediaSnapshot = "application/x-tar"
)

func operationRoutes() []route {
	return []route{
		{
			method: post, path: "/v1/cluster/join", handle: (*api).joinServer, statuses: noContent, body: client.JoinRequest{},
			summary: "Add a new server, which waits at its RPC address, without a vote; it gets one when it has caught up",
		},
		{
			method: post, path: "/v1/cluster/remove", handle: (*api).removeServer, statuses: noContent, body: client.RemoveRequest{},
			summary: "Remove a server, dead or alive: 409 where too few of those that are left answer, unless forced",
		},
		{
			method: post, path: "/v1/cluster/transfer", handle: (*api).transferLeadership, statuses: ok,
			body: client.TransferRequest{}, bodyOptional: true, answer: client.Transfer{},
			summary: "Hand leadership to a server, or to whichever lacks least, and wait until it leads",
		},
		{
			method: post, path: "/v1/cluster/settings", handle: (*api).setSettings, statuses: ok,
			body: job.Settings{}, answer: job.Settings{},
			summary: "Change the cluster's settings that are given, and answer all that are set",
		},
		{
			method: get, path: "/v1/cluster/check", handle: (*api).checkCluster, statuses: ok, answer: client.ClusterCheck{},
			summary: "Have every server make a checksum of what it wrote, and compare them",
		},
		{
			method: get, path: snapshotPath, handle: (*api).saveSnapshot, statuses: ok, media: mediaSnapshot, long: true,
			summary: "Get a snapshot of the whole state with everything that was acknowledged before",
		},
		{
			method: post, path: snapshotPath, handle: (*api).restoreSnapshot, statuses: ok, answer: client.Restored{}, long: true,
			query: []string{"force"}, bodyMedia: mediaSnapshot,
			summary: "Replace the whole state by a snapshot: 409 where the cluster isn't empty, unless forced",
		},
	}
}

func (a *api) joinServer(r *request) error {
	var in client.JoinRequest
	if err := decode(r.body, &in); err != nil {
		return err
	}
	if err := job.ValidateName("name", in.Name); err != nil {
		return err
	}
	if in.RPCAddress == "" {
		return job.Invalid("rpc_address", "must be host:port where the new server waits", "")
	}
	if err := a.backend.JoinServer(r.ctx, in.Name, in.RPCAddress); err != nil {
		return err
	}
	return r.NoContent(http.StatusNoContent)
}

func (a *api) removeServer(r *request) error {
	var in client.RemoveRequest
	if err := decode(r.body, &in); err != nil {
		return err
	}
	if err := job.ValidateName("name", in.Name); err != nil {
		return err
	}
	if err := a.backend.RemoveServer(r.ctx, in.Name, in.Force); err != nil {
		return err
	}
	return r.NoContent(http.StatusNoContent)
}

func (a *api) transferLeadership(r *request) error {
	var in client.TransferRequest
	if err := decode(r.body, &in); err != nil {
		return err
	}
	out, err := a.backend.TransferLeadership(r.ctx, in.To)
	if err != nil {
		return err
	}
	return write(r, http.StatusOK, out)
}

func (a *api) checkCluster(r *request) error {
	out, err := a.backend.CheckCluster(r.ctx)
	if err != nil {
		return err
	}
	return write(r, http.StatusOK, out)
}

// saveSnapshot streams. What fails after the beginning cuts the connection: the
// client misses bytes that it was promised.
func (a *api) saveSnapshot(r *request) error {
	begun := false
	err := a.backend.SaveSnapshot(r.ctx, func(size int64) io.Writer {
		begun = true
		h := r.Response().Header()
		h.Set("Content-Type", mediaSnapshot)
		h.Set("Content-Length", strconv.FormatInt(size, 10))
		h.Set("Content-Disposition", `attachment; filename="axd-snapshot.tar"`)
		r.Response().WriteHeader(http.StatusOK)
		return &pacedWriter{r.Response(), http.NewResponseController(r.Response().Writer)}
	})
	if err != nil && begun {
		a.log.Warn("a snapshot was not sent whole", "error", err, "remote", r.RealIP())
	}
	return err
}

func (a *api) restoreSnapshot(r *request) error {
	force, bad := r.boolean("force")
	if bad != nil {
		return bad
	}
	body := pacedReader{r.Request().Body, http.NewResponseController(r.Response().Writer)}
	out, err := a.backend.RestoreSnapshot(r.ctx, body, force)
	if err != nil {
		return err
	}
	return write(r, http.StatusOK, out)
}

// pacedWriter wants the other side to take each piece in time.
type pacedWriter struct {
	io.Writer
	control *http.ResponseController
}

func (w *pacedWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(requestTime)) // a connection that knows none is a test's
	return w.Writer.Write(p)
}

// pacedReader wants the other side to send something in time.
type pacedReader struct {
	io.Reader
	control *http.ResponseController
}

func (r pacedReader) Read(p []byte) (int, error) {
	_ = r.control.SetReadDeadline(time.Now().Add(requestTime))
	return r.Reader.Read(p)
}

package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/axd-project/axd/job"
)

// JoinRequest asks for a server to be added.
type JoinRequest struct {
	Name       string `json:"name"`
	RPCAddress string `json:"rpc_address"` // host:port where it waits
}

// RemoveRequest asks for a server to be removed.
type RemoveRequest struct {
	Name  string `json:"name"`
	Force bool   `json:"force,omitempty"` // even where too few of those that are left answer
}

// TransferRequest asks the leader to hand leadership over.
type TransferRequest struct {
	To string `json:"to,omitempty"` // a server's name; empty: whoever lacks least
}

// SetSettings changes the cluster's settings that are given and returns all that
// are set.
func (c *Client) SetSettings(ctx context.Context, change job.Settings) (job.Settings, error) {
	var out job.Settings
	err := c.call(ctx, request{method: http.MethodPost, path: "/v1/cluster/settings", body: change, again: true}, &out)
	return out, err
}

// Transfer tells who leads now.
type Transfer struct {
	From     string       `json:"from"`
	Leader   string       `json:"leader"`
	Term     uint64       `json:"term"`
	Duration job.Duration `json:"duration"` // from the request until the new one led
}

// ClusterCheck compares what the servers hold.
type ClusterCheck struct {
	OK      bool          `json:"ok"` // all answered and agree
	Servers []ServerCheck `json:"servers"`
}

// ServerCheck is one server's part of a ClusterCheck. Servers with the same
// checksum at the same index have written the same up to there.
type ServerCheck struct {
	Name          string `json:"name"`
	Applied       uint64 `json:"applied_index"`
	ChecksumIndex uint64 `json:"checksum_index"`
	Checksum      string `json:"checksum,omitempty"`
	Agrees        bool   `json:"agrees"`          // with the most servers
	Error         string `json:"error,omitempty"` // why it could not be asked
}

// Restored tells what a restore did.
type Restored struct {
	Applied uint64 `json:"applied_index"` // the newest entry of the snapshot
	Epoch   uint32 `json:"restore_epoch"` // of fencing tokens from now on
}

// The times of calls that take long.
const (
	changeTime   = 30 * time.Second // a change of the servers
	snapshotTime = time.Hour        // a snapshot, whatever its size
)

func (c *Client) change(ctx context.Context, path string, body, out any, again bool) error {
	return c.call(ctx, request{method: http.MethodPost, path: path, body: body, limit: changeTime, again: again}, out)
}

// JoinServer adds a new server that waits at an address. It gets its vote once it
// has caught up.
func (c *Client) JoinServer(ctx context.Context, name, rpcAddress string) error {
	return c.change(ctx, "/v1/cluster/join", JoinRequest{name, rpcAddress}, nil, true)
}

// RemoveServer removes a server, dead or alive.
func (c *Client) RemoveServer(ctx context.Context, name string, force bool) error {
	return c.change(ctx, "/v1/cluster/remove", RemoveRequest{name, force}, nil, false)
}

// TransferLeadership makes another server lead; to may be empty. It returns once
// that one leads.
func (c *Client) TransferLeadership(ctx context.Context, to string) (Transfer, error) {
	var out Transfer
	err := c.change(ctx, "/v1/cluster/transfer", TransferRequest{to}, &out, false)
	return out, err
}

// CheckCluster compares what all servers hold.
func (c *Client) CheckCluster(ctx context.Context) (ClusterCheck, error) {
	var out ClusterCheck
	err := c.call(ctx, request{method: http.MethodGet, path: "/v1/cluster/check", limit: changeTime, again: true}, &out)
	return out, err
}

// SaveSnapshot writes a snapshot of the whole state to w: everything that was
// acknowledged before the call. Of a broken stream a part may have been written.
func (c *Client) SaveSnapshot(ctx context.Context, w io.Writer) (int64, error) {
	var n int64
	err := c.anyServer(ctx, func(ctx context.Context, base *url.URL) *Error {
		if n > 0 {
			return nil
		}
		resp, e := c.send(ctx, base, request{method: http.MethodGet, path: "/v1/snapshot"}, nil)
		if e != nil {
			return e
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return problemError(base.Host, resp)
		}
		var err error
		if n, err = io.Copy(w, resp.Body); err != nil {
			return &Error{
				Problem: Problem{Code: job.CodeInternal, Title: "snapshot cut off", Detail: "the snapshot broke off after " +
					strconv.FormatInt(n, 10) + " bytes: " + reason(err)}, Address: base.Host, cause: err,
			}
		}
		return nil
	})
	return n, err
}

// RestoreSnapshot replaces the whole state by a snapshot of size bytes. Where the
// cluster isn't empty, it is refused unless forced: what it holds is lost.
func (c *Client) RestoreSnapshot(ctx context.Context, r io.ReaderAt, size int64, force bool) (Restored, error) {
	var out Restored
	err := c.anyServer(ctx, func(ctx context.Context, base *url.URL) *Error {
		q := url.Values{}
		if force {
			q.Set("force", "true")
		}
		req := request{method: http.MethodPost, path: "/v1/snapshot", query: q, media: mediaSnapshot}
		resp, e := c.sendBody(ctx, base, req, io.NewSectionReader(r, 0, size), size)
		if e != nil {
			return e
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return problemError(base.Host, resp)
		}
		return decodeAnswer(base.Host, resp, &out)
	})
	return out, err
}

const mediaSnapshot = "application/x-tar"

// anyServer calls do with one server after the other until one has answered.
func (c *Client) anyServer(ctx context.Context, do func(context.Context, *url.URL) *Error) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotTime)
	defer cancel()
	deadline := time.Now().Add(max(c.cfg.RetryTime, 0))
	for try := 1; ; try++ {
		at := c.at.Load()
		e := do(ctx, c.base[int(at)%len(c.base)])
		switch {
		case e == nil:
			return nil
		case ctx.Err() != nil:
			return ended(ctx, e)
		case !e.retryable(false):
			return e
		}
		c.leave(at)
		if try >= len(c.base) && time.Now().After(deadline) {
			return e
		}
		if !sleep(ctx, minBackoff) {
			return ended(ctx, e)
		}
	}
}

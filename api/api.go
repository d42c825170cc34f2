package api

import (
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/semaphore"
)

// The limits of the API. Beyond a count the caller gets 429, beyond a size 413.
const (
	maxRequests   = 1024             // requests served at the same time, streams and health checks apart
	maxStreams    = 256              // streams served at the same time
	maxBody       = 1 << 20          // bytes of a request
	maxBatchBody  = 64 << 20         // bytes of a batch
	maxBodies     = 256 << 20        // bytes of all requests being read or handled
	requestTime   = 30 * time.Second // from a request's head to its answer, the body's arrival included
	probeTime     = 5 * time.Second  // for a health check or a scrape
	heartbeatTime = 15 * time.Second // between signs of life on a stream
	writeTime     = 10 * time.Second // for the other side to take one event of a stream
)

// Config tells New what to serve.
type Config struct {
	Backend Backend
	Logger  *slog.Logger // default: slog.Default()
	Version string       // of this build, for the OpenAPI document and metrics
	// Addresses are those that this server listens on. A Host header may carry
	// them, loopback names, and the address that its connection came in on, so
	// an unspecified address (0.0.0.0) is fine.
	Addresses []string
	// AllowedHosts are further names that a Host header may carry, with or
	// without a port: DNS names of this server, a proxy's name for it.
	AllowedHosts []string
}

// api is the handler's state.
type api struct {
	backend  Backend
	log      *slog.Logger
	version  string
	hosts    map[string]bool
	origins  *http.CrossOriginProtection
	requests *semaphore.Weighted
	streams  *semaphore.Weighted
	bodies   *semaphore.Weighted
	metrics  *metrics
	document []byte // OpenAPI
	echo     *echo.Echo
}

// New returns the handler of the whole API. It starts nothing: the caller owns
// the listener and its http.Server. Streams end with their request's context,
// so a server that stops cancels its BaseContext before it waits for handlers.
func New(cfg Config) http.Handler { return newAPI(cfg) }

func newAPI(cfg Config) *api {
	a := &api{
		backend:  cfg.Backend,
		log:      cfg.Logger,
		version:  cfg.Version,
		hosts:    hostNames(slices.Concat(cfg.Addresses, cfg.AllowedHosts)),
		origins:  http.NewCrossOriginProtection(),
		requests: semaphore.NewWeighted(maxRequests),
		streams:  semaphore.NewWeighted(maxStreams),
		bodies:   semaphore.NewWeighted(maxBodies),
		echo:     echo.New(),
	}
	if a.log == nil {
		a.log = slog.Default()
	}
	a.metrics = newMetrics(a)
	a.document = openAPI(routes(), a.version)
	a.echo.IPExtractor = echo.ExtractIPDirect() // a forwarded address is only a claim
	a.echo.HTTPErrorHandler = a.fail
	a.echo.Pre(a.observe, a.recoverPanic, a.guard)
	for _, r := range routes() {
		a.echo.Add(r.method, r.path, a.handler(r))
		if r.method == http.MethodGet && !r.stream && !r.long {
			a.echo.Add(http.MethodHead, r.path, a.handler(r))
		}
	}
	return a
}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.echo.ServeHTTP(w, r) }

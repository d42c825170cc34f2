package api

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// metrics is what GET /metrics shows. What state knows is read from state at
// each scrape, so every server shows the same numbers, and none is lost or
// counted twice by a replay.
type metrics struct {
	registry *prometheus.Registry
	handler  http.Handler
	count    *prometheus.CounterVec
	took     *prometheus.HistogramVec
}

func newMetrics(a *api) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "axd_http_requests_total", Help: "Requests answered, by route, method and status.",
		}, []string{"route", "method", "code"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "axd_http_request_duration_seconds", Help: "Time from a request's head to the end of its answer.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		}, []string{"route", "method"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "axd_build_info", Help: "1; the label tells the version.", ConstLabels: prometheus.Labels{"version": a.version},
	})
	build.Set(1)
	m.registry.MustRegister(
		m.count, m.took, build, &stateCollector{a},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	return m
}

// request counts one answered request. A route is a pattern and a method one of
// few, so the number of series is bounded.
func (m *metrics) request(route, method string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodPatch:
	default:
		method = "other"
	}
	m.count.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.took.WithLabelValues(route, method).Observe(took.Seconds())
}

func (a *api) getMetrics(r *request) error {
	a.metrics.handler.ServeHTTP(r.Response(), r.Request())
	return nil
}

var (
	tasksDesc   = prometheus.NewDesc("axd_tasks", "Tasks by stored state, over all namespaces.", []string{"state"}, nil)
	deadDesc    = prometheus.NewDesc("axd_dead_letters", "Tasks that failed for good and wait for a replay or a discard, over all namespaces.", nil, nil)
	unfiredDesc = prometheus.NewDesc("axd_schedules_unfired", "Schedules whose last time was missed or refused, over all namespaces.", nil, nil)
	droppedDesc = prometheus.NewDesc("axd_fires_dropped_total", "Verdicts of schedules' ledgers that were dropped before their retention.", nil, nil)
	alertsDesc  = prometheus.NewDesc("axd_alerts", "Alerts by state.", []string{"state"}, nil)
	offsetDesc  = prometheus.NewDesc("axd_clock_offset_seconds", "How far another server's wall clock is ahead of this one's.", []string{"server"}, nil)
	readyDesc   = prometheus.NewDesc("axd_ready_tasks", "Due tasks not yet assigned; shown by the leader alone.", nil, nil)
)

// stateCollector reads at scrape time what others know.
type stateCollector struct{ *api }

// Describe implements prometheus.Collector. It names nothing, since the
// backend's gauges differ from build to build.
func (c *stateCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	err := c.backend.Read(ctx, true, func(v fsm.Reader) error {
		counts := fsm.CountTasks(v, "")
		for _, s := range job.States {
			out <- prometheus.MustNewConstMetric(tasksDesc, prometheus.GaugeValue, float64(counts[s]), s.String())
		}
		out <- prometheus.MustNewConstMetric(deadDesc, prometheus.GaugeValue, float64(fsm.CountDead(v, "", "")))
		out <- prometheus.MustNewConstMetric(unfiredDesc, prometheus.GaugeValue, float64(fsm.CountUnfired(v)))
		out <- prometheus.MustNewConstMetric(droppedDesc, prometheus.CounterValue, float64(fsm.CountDroppedFires(v)))
		alerts := map[fsm.AlertState]int{}
		for _, t := range fsm.ListAlerts(v, 0) {
			alerts[t.State]++
		}
		for s := fsm.AlertOpen; s <= fsm.AlertResolved; s++ {
			out <- prometheus.MustNewConstMetric(alertsDesc, prometheus.GaugeValue, float64(alerts[s]), s.String())
		}
		return nil
	})
	for name, offset := range c.backend.ClockOffsets() {
		out <- prometheus.MustNewConstMetric(offsetDesc, prometheus.GaugeValue, offset.Seconds(), name)
	}
	if err != nil {
		c.log.Debug("no task counts for a scrape", "error", err)
	}
	if n := c.backend.ReadyTasks(); n >= 0 {
		out <- prometheus.MustNewConstMetric(readyDesc, prometheus.GaugeValue, float64(n))
	}
	for name, value := range c.backend.Metrics() {
		m, err := gauge("axd_"+name, value)
		if err != nil {
			c.log.Debug("gauge left out", "name", name, "error", err)
			continue
		}
		out <- m
	}
}

var gaugeName = regexp.MustCompile(`^axd_[a-z0-9_]+$`)

func gauge(name string, value float64) (prometheus.Metric, error) {
	if !gaugeName.MatchString(name) {
		return nil, errors.New("a gauge's name has lower-case letters, digits and _ alone")
	}
	kind := prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	return prometheus.NewConstMetric(prometheus.NewDesc(name, "As measured by this server.", nil, nil), kind, value)
}

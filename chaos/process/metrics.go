package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	metricsTime = 5 * time.Second
	maxMetrics  = 4 << 20 // bytes
)

// Metrics reads the server's gauges and counters that have no labels.
func (s *Server) Metrics(ctx context.Context) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, metricsTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.HTTP+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	req.Close = true // this connection is not to count among what the server holds
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics of %s: %s", s.HTTP, resp.Status)
	}
	return ParseMetrics(io.LimitReader(resp.Body, maxMetrics))
}

// ParseMetrics reads the figures without labels out of the text that Prometheus reads.
func ParseMetrics(r io.Reader) (map[string]float64, error) {
	out := map[string]float64{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, text, ok := strings.Cut(lines.Text(), " ")
		if !ok || strings.ContainsAny(name, "#{") {
			continue
		}
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			out[name] = v
		}
	}
	return out, lines.Err()
}

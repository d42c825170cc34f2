package api

import (
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// guard refuses what a web page may make a visitor's browser send: requests
// under a name of the attacker's (DNS rebinding), from another origin, or in
// the form of a plain HTML form. Loopback is no shelter from that, and whoever
// submits a task runs a command.
func (a *api) guard(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		r := c.Request()
		if !a.allowedHost(r) {
			return &job.Error{
				Code: job.CodeForbidden, Field: "Host", Value: job.Shorten(r.Host),
				Rule: "must name this server; to reach it by another name, start the server with --allowed-host NAME (AXD_ALLOWED_HOST, or allowed_host in its file)",
			}
		}
		if err := a.origins.Check(r); err != nil {
			return &job.Error{Code: job.CodeForbidden, Field: "Origin", Rule: "must not be another web site", Value: job.Shorten(r.Header.Get("Origin"))}
		}
		if err := checkContent(r); err != nil {
			return err
		}
		return next(c)
	}
}

// checkContent wants JSON on every POST and PUT, even where the body may be
// left out: no HTML form can send that type, and no script of another site
// without asking first.
func checkContent(r *http.Request) error {
	if r.Method != http.MethodPost && r.Method != http.MethodPut {
		return nil
	}
	given := r.Header.Get("Content-Type")
	media, params, err := mime.ParseMediaType(given)
	charset, ok := params["charset"]
	want := "application/json"
	if r.URL.Path == snapshotPath {
		want = mediaSnapshot // which no form can send either
	}
	if err != nil || media != want || (ok && !strings.EqualFold(charset, "utf-8")) {
		return httpErrorf(http.StatusUnsupportedMediaType, job.CodeInvalid, "Content-Type", "must be "+want+" in UTF-8", given)
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return httpErrorf(http.StatusUnsupportedMediaType, job.CodeInvalid, "Content-Encoding", "must be identity: bodies are not decompressed", e)
	}
	return nil
}

// hostNames returns the names that Host may carry.
func hostNames(addresses []string) map[string]bool {
	names := map[string]bool{"localhost": true}
	for _, a := range addresses {
		name := hostOf(a)
		if ip, err := netip.ParseAddr(name); name == "" || (err == nil && ip.IsUnspecified()) {
			continue
		}
		names[name] = true
	}
	return names
}

// hostOf returns the name or address in "host", "host:port" or "[v6]:port", as
// it is compared.
func hostOf(s string) string {
	if host, _, err := net.SplitHostPort(s); err == nil {
		s = host
	}
	s = strings.ToLower(strings.TrimSuffix(strings.Trim(s, "[]"), "."))
	if ip, err := netip.ParseAddr(s); err == nil {
		return ip.Unmap().String()
	}
	return s
}

func (a *api) allowedHost(r *http.Request) bool {
	host := hostOf(r.Host)
	if a.hosts[host] {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	if ip.IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && local.AddrPort().Addr().Unmap() == ip
}

// routeKey is where handler leaves the route's path for observe.
const routeKey = "axd.route"

// observe counts and logs each request.
func (a *api) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		if leader := a.backend.LeaderAddress(); leader != "" {
			c.Response().Header().Set(client.LeaderHeader, leader)
		}
		if err := next(c); err != nil {
			c.Error(err) // answer now, so that the status is known below
		}
		took := time.Since(start)
		route, ok := c.Get(routeKey).(string)
		if !ok {
			route = "none"
		}
		status := c.Response().Status
		a.metrics.request(route, c.Request().Method, status, took)
		if a.log.Enabled(c.Request().Context(), slog.LevelDebug) {
			a.log.Debug("request", "method", c.Request().Method, "path", c.Request().URL.Path, "route", route,
				"status", status, "bytes", c.Response().Size, "took", took, "remote", c.RealIP())
		}
		return nil
	}
}

// recoverPanic turns a panic into a 500, or into a cut connection where the
// answer has begun.
func (a *api) recoverPanic(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if e, ok := v.(error); ok && errors.Is(e, http.ErrAbortHandler) {
				panic(v)
			}
			a.log.Error("panic while serving a request", "panic", v, "stack", string(debug.Stack()))
			if c.Response().Committed {
				panic(http.ErrAbortHandler)
			}
			err = &job.Error{Code: job.CodeInternal, Rule: fmt.Sprint("panic: ", v)}
		}()
		return next(c)
	}
}

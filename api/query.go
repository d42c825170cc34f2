package api

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// defaultPage is the number of entries of a page unless limit says otherwise.
const defaultPage = 100

// query holds a request's checked parameters.
type query struct {
	namespace    string
	hasNamespace bool
	stale        bool
	values       url.Values
}

// parseQuery reads the parameters of a request and refuses what the route
// doesn't know. namespace is known everywhere, consistency wherever is read.
func parseQuery(raw string, read bool, known []string) (query, *job.Error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return query{}, job.Invalid("query", "must be pairs of key=value joined by &, with special characters as %XX", raw)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all := values[name]
		switch {
		case name != "namespace" && (name != "consistency" || !read) && !slices.Contains(known, name):
			return query{}, job.Invalid(place(name), "is not a parameter that this path takes", all[0]).At("query")
		case len(all) > 1:
			return query{}, job.Invalid(name, "must appear once", strings.Join(all, ", "))
		case !utf8.ValidString(all[0]):
			return query{}, job.Invalid(name, "must be valid UTF-8", all[0])
		}
	}
	q := query{namespace: job.DefaultNamespace, values: values}
	if ns := values.Get("namespace"); values.Has("namespace") {
		if err := job.ValidateNamespace(ns); err != nil {
			return query{}, err
		}
		q.namespace, q.hasNamespace = ns, true
	}
	switch c := values.Get("consistency"); {
	case !values.Has("consistency") || c == "linearizable":
	case c == "stale":
		q.stale = true
	default:
		return query{}, job.Invalid("consistency", "must be linearizable (the default) or stale", c)
	}
	return q, nil
}

// limit reads the size of a page.
func (q query) limit() (int, *job.Error) { return q.count("limit", defaultPage) }

// count reads how many are asked for, from 1 to the largest page.
func (q query) count(name string, usual int) (int, *job.Error) {
	if !q.values.Has(name) {
		return usual, nil
	}
	s := q.values.Get(name)
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > fsm.MaxPage || strings.Trim(s, "0123456789") != "" {
		return 0, job.Invalid(name, "must be a whole number from 1 to "+strconv.Itoa(fsm.MaxPage), s)
	}
	return n, nil
}

// boolean reads a parameter that is true or false; absent is false.
func (q query) boolean(name string) (bool, *job.Error) {
	switch s := q.values.Get(name); {
	case !q.values.Has(name) || s == "false":
		return false, nil
	case s == "true":
		return true, nil
	default:
		return false, job.Invalid(name, "must be true or false", s)
	}
}

// time reads a point in time, RFC 3339 or whole seconds since 1970, into Unix
// milliseconds. Zero means absent; nothing in axd is older than 1970.
func (q query) time(name string) (int64, *job.Error) {
	if !q.values.Has(name) {
		return 0, nil
	}
	s := q.values.Get(name)
	if s != "" && strings.Trim(s, "0123456789") == "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n > job.MaxTime/1000 {
			return 0, job.Invalid(name, "must be seconds from 1970 up to the year 9999", s)
		}
		return max(n*1000, 1), nil
	}
	ms, err := job.ParseTime(mendPlus(s))
	if err != nil {
		e := *job.AsError(err)
		e.Field, e.Value = name, job.Shorten(s)
		if strings.Contains(s, " ") {
			e.Rule += ` (encode "+" as %2B in a URL)`
		}
		return 0, &e
	}
	return max(ms, 1), nil
}

// mendPlus puts back the plus of an offset that was not sent as %2B: form
// decoding turned it into a blank, and a blank can stand nowhere else.
func mendPlus(s string) string {
	const offset = len("+02:00")
	if at := len(s) - offset; at > 0 && s[at] == ' ' && strings.Count(s, " ") == 1 {
		return s[:at] + "+" + s[at+1:]
	}
	return s
}

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"

	"github.com/axd-project/axd/job"
)

// outputFlag is how results are written.
type outputFlag string

func (o *outputFlag) String() string { return string(*o) }
func (o *outputFlag) Type() string   { return "format" }

func (o *outputFlag) Set(s string) error {
	switch s {
	case "table", "json", "yaml":
		*o = outputFlag(s)
		return nil
	}
	return job.Invalid("", "must be table, json or yaml", s)
}

// print writes v as JSON or YAML, or calls table to write it for people.
func (o outputFlag) print(w io.Writer, v any, table func(*table)) error {
	if o == "table" {
		t := newTable(w)
		table(t)
		return t.flush()
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	data := buf.Bytes()
	if o == "yaml" {
		var err error
		if data, err = yaml.JSONToYAML(data); err != nil {
			return err
		}
	}
	_, err := w.Write(data)
	return err
}

// table writes aligned columns.
type table struct {
	tw  *tabwriter.Writer
	err error
}

func newTable(w io.Writer) *table {
	return &table{tw: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
}

func (t *table) row(cells ...string) {
	for i, c := range cells {
		if c == "" {
			c = "-"
		}
		cells[i] = printable(c)
	}
	if _, err := fmt.Fprintln(t.tw, strings.Join(cells, "\t")); err != nil && t.err == nil {
		t.err = err
	}
}

// wrapped writes a row whose last cell may be long: it goes on below itself.
func (t *table) wrapped(width int, cells ...string) {
	for i, c := range cells {
		cells[i] = printable(cmp.Or(c, "-"))
	}
	last := len(cells) - 1
	for i, part := range words(cells[last], width) {
		if i > 0 {
			clear(cells)
		}
		cells[last] = part
		if _, err := fmt.Fprintln(t.tw, strings.Join(cells, "\t")); err != nil && t.err == nil {
			t.err = err
		}
	}
}

// words breaks a text at spaces into lines of a width, and a longer word where it must.
func words(s string, width int) []string {
	var lines []string
	line := ""
	for _, w := range strings.Fields(s) {
		for utf8.RuneCountInString(w) > width {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			r := []rune(w)
			lines, w = append(lines, string(r[:width])), string(r[width:])
		}
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(w) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimLeft(line+" "+w, " ")
	}
	return append(lines, line)
}

// pair writes a row of a list of fields; an absent value writes none.
func (t *table) pair(name, value string) {
	if value != "" {
		t.row(name, value)
	}
}

// long is pair for a value that goes on below itself.
func (t *table) long(name, value string) {
	if value == "" {
		return
	}
	for _, part := range words(value, maxWidth-20) {
		t.row(name, part)
		name = " "
	}
}

// maxWidth is how wide a table may be.
const maxWidth = 120

// line writes a line that has no columns.
func (t *table) line(format string, args ...any) {
	if _, err := fmt.Fprintln(t.tw, printable(fmt.Sprintf(format, args...))); err != nil && t.err == nil {
		t.err = err
	}
}

// gap ends a block of columns: what follows is aligned by itself.
func (t *table) gap() {
	if err := t.flush(); err == nil {
		_, t.err = fmt.Fprintln(t.tw)
	}
}

func (t *table) flush() error {
	if err := t.tw.Flush(); err != nil && t.err == nil {
		t.err = err
	}
	return t.err
}

// printable keeps control characters of stored texts away from the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return ' '
		}
		return r
	}, s)
}

// printableLines is printable for texts of several lines.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// cut shortens s to n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// clock writes a time for people: in their zone, with the date unless it's today.
func clock(t *time.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	l, n := t.Local(), now.Local()
	if l.Year() == n.Year() && l.YearDay() == n.YearDay() {
		return l.Format("15:04:05.000")
	}
	return l.Format("2006-01-02 15:04:05")
}

// exact writes a time for people, whole.
func exact(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05.000 MST")
}

// short writes a span with at most three digits of detail.
func short(d time.Duration) string {
	const longest = 290 * 365 * 24 * time.Hour // what is longer may have been cut to what a Duration holds
	switch {
	case d < 10*time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Minute:
		return d.Round(time.Second / 10).String()
	case d > longest:
		return "over 290 years"
	case d >= 100*time.Hour:
		hours := int(d.Round(time.Hour) / time.Hour)
		if hours%24 == 0 {
			return strconv.Itoa(hours/24) + "d"
		}
		return fmt.Sprintf("%dd%dh", hours/24, hours%24)
	}
	return job.Duration(d.Round(time.Second)).String()
}

func labels(m map[string]string) string {
	parts := make([]string, 0, len(m))
	for _, k := range sorted(m) {
		parts = append(parts, k+"="+m[k])
	}
	return strings.Join(parts, ",")
}

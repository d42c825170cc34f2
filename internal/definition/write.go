package definition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lineWidth is up to where short lists stay on one line.
const lineWidth = 100

// YAML writes a definition as one YAML document: kind and name first, then the
// fields in the order of the API's JSON.
func YAML(kind, name string, spec any) ([]byte, error) {
	n, err := tree(spec)
	if err != nil {
		return nil, err
	}
	var w bytes.Buffer
	w.WriteString("kind: " + kind + "\nname: " + text(name, 0) + "\n")
	writeFields(&w, n, 0)
	return w.Bytes(), nil
}

const indent = 2

func writeFields(w *bytes.Buffer, n *node, depth int) {
	for _, key := range n.keys {
		w.WriteString(strings.Repeat(" ", depth) + text(key, -1) + ":")
		writeValue(w, n.fields[key], depth+indent, depth+len(key)+1)
	}
}

// writeValue writes what stands behind a colon or a dash, with the line's end.
func writeValue(w *bytes.Buffer, n *node, depth, column int) {
	switch {
	case n.fields != nil && len(n.keys) > 0:
		w.WriteByte('\n')
		writeFields(w, n, depth)
	case len(n.items) > 0:
		if line, ok := flow(n); ok && column+1+utf8.RuneCountInString(line) <= lineWidth {
			w.WriteString(" " + line + "\n")
			return
		}
		w.WriteByte('\n')
		writeItems(w, n, depth)
	case n.raw[0] == '"':
		var s string
		_ = json.Unmarshal(n.raw, &s)
		w.WriteString(" " + text(s, depth) + "\n")
	default: // a number keeps its letters
		w.WriteString(" " + string(n.raw) + "\n")
	}
}

func writeItems(w *bytes.Buffer, n *node, depth int) {
	for _, item := range n.items {
		lead := strings.Repeat(" ", depth) + "-"
		w.WriteString(lead)
		if item.fields == nil || len(item.keys) == 0 {
			writeValue(w, item, depth+indent, depth+1)
			continue
		}
		var fields bytes.Buffer
		writeFields(&fields, item, depth+indent)
		w.Write(append([]byte(" "), fields.Bytes()[depth+indent:]...))
	}
}

// flow writes a list of short scalars on one line.
func flow(n *node) (string, bool) {
	parts := make([]string, 0, len(n.items))
	for _, item := range n.items {
		if item.fields != nil && len(item.keys) > 0 || len(item.items) > 0 {
			return "", false
		}
		part := string(item.raw)
		if item.raw[0] == '"' {
			var s string
			_ = json.Unmarshal(item.raw, &s)
			if strings.Contains(s, "\n") {
				return "", false
			}
			part = text(s, -1)
		}
		parts = append(parts, part)
	}
	return "[" + strings.Join(parts, ", ") + "]", true
}

// text writes a string: as it is where that means the same, a text of several lines
// as a block below depth, else in quotes. depth < 0: no block.
func text(s string, depth int) string {
	if depth > 0 && blockable(s) {
		head := "|"
		switch {
		case !strings.HasSuffix(s, "\n"):
			head = "|-"
		case strings.HasSuffix(s, "\n\n"):
			head = "|+"
		}
		lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
		for i, line := range lines {
			if line != "" {
				lines[i] = strings.Repeat(" ", depth) + line
			}
		}
		return head + "\n" + strings.Join(lines, "\n")
	}
	if plainRisky(s) {
		return quoted(s)
	}
	return s
}

// quoted writes a text in quotes. What some readers of YAML take for a line's end,
// or can't show, is escaped.
func quoted(s string) string {
	var b strings.Builder
	for _, r := range string(quote(s)) {
		if r > 0x7e && r <= 0xffff && !unicode.IsPrint(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// blockable tells whether a text is the same as a literal block.
func blockable(s string) bool {
	if !strings.Contains(s, "\n") || strings.Trim(s, "\n") == "" || s[0] == '\n' || s[0] == ' ' || s[0] == '\t' {
		return false
	}
	for line := range strings.Lines(s) {
		if strings.TrimRight(line, "\n") != strings.TrimRight(line, " \t\n") {
			return false // blanks at a line's end are lost on their way through editors
		}
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r != '\n' && r != '\t' && !unicode.IsPrint(r) || r == utf8.RuneError || r == '\u2028' || r == '\ufeff'
	})
}

var plain = regexp.MustCompile(`^-{0,2}[A-Za-z_/]` + inWord + `( [A-Za-z0-9_./@%+=~(-]` + inWord + `)*$`)

// inWord are the characters within a word, and colons that begin no value.
const inWord = `(?:[A-Za-z0-9_./@%+=~()'-]|:[A-Za-z_/])*`

// span is a duration, which no reader takes for a number, and address a URL.
var (
	span    = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d))+$`)
	address = regexp.MustCompile(`^https?://[A-Za-z0-9/][A-Za-z0-9_./:@%+=~-]*[A-Za-z0-9/]$`)
)

// plainRisky tells whether a text needs quotes: since it would mean something else,
// or to some other reader of YAML.
func plainRisky(s string) bool {
	if span.MatchString(s) || address.MatchString(s) {
		return false
	}
	if !plain.MatchString(s) {
		return true
	}
	switch strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return true
	}
	return false
}

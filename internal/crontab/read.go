package crontab

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Entry is a line that runs a command.
type Entry struct {
	Line    int
	Text    string // as it stands
	Comment string // that stands right above it
	When    string // five fields, or a word like @daily
	User    string // of the system's tables
	Command string
	Stdin   string            // what follows the first bare %
	Env     map[string]string // set by the lines above
}

// Note tells of something that could not be expressed.
type Note struct {
	Line int // 0: it is about the whole table
	Text string
	// Lost: what the line says is not in the result.
	Lost bool
}

func (n Note) String() string {
	if n.Line == 0 {
		return n.Text
	}
	return "line " + strconv.Itoa(n.Line) + ": " + n.Text
}

const fields = 5

var (
	envLine  = regexp.MustCompile(`^[ \t]*(?:([A-Za-z_][A-Za-z0-9_]*)|"([^"=]*)"|'([^'=]*)')[ \t]*=[ \t]*(.*)$`)
	envName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	userName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]*(:[A-Za-z0-9_.@-]+)?(/[A-Za-z0-9_.@-]+)?$`)
	timeWord = regexp.MustCompile(`^[0-9A-Za-z*,/~?#-]+$`)
)

// Read takes a table apart. system: its lines name the user behind the times, as
// those of /etc/crontab and /etc/cron.d do.
func Read(data []byte, system bool) ([]Entry, []Note) {
	var entries []Entry
	var notes []Note
	env := map[string]string{}
	var comment []string
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		lost := func(text string) { notes = append(notes, Note{number, text, true}) }
		text := strings.TrimLeft(line, " \t")
		switch {
		case !utf8.ValidString(line) || strings.ContainsRune(line, 0):
			lost("is not text in UTF-8 and is left out")
		case text == "":
			comment = nil
			continue
		case text[0] == '#':
			if said := strings.TrimSpace(strings.TrimLeft(text, "#")); said != "" && !isEntry(said, system) {
				comment = append(comment, said)
			}
			continue
		case envLine.MatchString(line):
			if n := setEnv(env, line); n != "" {
				lost(n)
			}
		default:
			e, wrong := entry(text, system)
			if wrong != "" {
				lost(wrong)
				break
			}
			e.Line, e.Comment, e.Env = number, strings.Join(comment, "\n"), maps.Clone(env)
			entries = append(entries, e)
		}
		comment = nil
	}
	return entries, notes
}

// isEntry tells whether a comment is a line that somebody has switched off.
func isEntry(text string, system bool) bool {
	e, wrong := entry(text, system)
	return wrong == "" && (e.When[0] == '@' || strings.ContainsAny(e.When, "0123456789*"))
}

// setEnv takes a line NAME=VALUE; it returns what is wrong with it.
func setEnv(env map[string]string, line string) string {
	m := envLine.FindStringSubmatch(line)
	name, value := m[1]+m[2]+m[3], strings.TrimRight(m[4], " \t")
	if !envName.MatchString(name) {
		return fmt.Sprintf("the name %q can't be that of an environment variable; left out", name)
	}
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		value = value[1 : n-1]
	}
	env[name] = value
	return ""
}

// entry reads a line of times and command; wrong says why it can't be.
func entry(text string, system bool) (e Entry, wrong string) {
	e.Text = text
	rest := strings.TrimPrefix(text, "-") // of some crons: don't log
	var words []string
	count := fields
	if strings.HasPrefix(rest, "@") {
		count = 1
	}
	for range count {
		var word string
		if word, rest = cutWord(rest); word == "" || count > 1 && !timeWord.MatchString(word) {
			return e, "is neither five times and a command nor NAME=VALUE; left out"
		}
		words = append(words, word)
	}
	e.When = strings.Join(words, " ")
	if system {
		if e.User, rest = cutWord(rest); !userName.MatchString(e.User) {
			return e, "names no user between the times and the command; left out"
		}
		e.User, _, _ = strings.Cut(e.User, ":")
		e.User, _, _ = strings.Cut(e.User, "/")
	}
	e.Command, e.Stdin = splitPercent(strings.TrimLeft(rest, " \t"))
	if strings.TrimSpace(e.Command) == "" {
		return e, "has no command; left out"
	}
	return e, ""
}

func cutWord(s string) (word, rest string) {
	s = strings.TrimLeft(s, " \t")
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// splitPercent divides a command from its standard input as cron does: at the first
// % without a backslash, further ones being line ends.
func splitPercent(s string) (command, stdin string) {
	var parts []string
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == '%':
			b.WriteByte('%')
			i++
		case s[i] == '%':
			parts = append(parts, b.String())
			b.Reset()
		default:
			b.WriteByte(s[i])
		}
	}
	parts = append(parts, b.String())
	if len(parts) > 1 {
		stdin = strings.TrimSuffix(strings.Join(parts[1:], "\n"), "\n") + "\n"
	}
	return parts[0], stdin
}

// names lists the variables of an entry in a fixed order.
func (e *Entry) names() []string { return slices.Sorted(maps.Keys(e.Env)) }

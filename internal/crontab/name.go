package crontab

import (
	"path"
	"regexp"
	"strconv"
	"strings"
)

// name makes a name of the command: that of the program or script, numbered where
// another line has it.
func (c *converter) name(e *Entry) string {
	base := nameOf(e.Command)
	name := base
	for n := 2; c.taken[name]; n++ {
		name = base + "-" + strconv.Itoa(n)
	}
	c.taken[name] = true
	return name
}

var (
	assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	notName    = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
)

const toTheEnd = -1

// passed are words that stand before the program that a line is about, with how many
// words behind them aren't it either.
var passed = map[string]int{
	"cd": toTheEnd, "test": toTheEnd, "[": toTheEnd, "umask": toTheEnd, "sleep": toTheEnd, "command": toTheEnd, "set": toTheEnd,
	".": toTheEnd, "source": toTheEnd,
	"exec": 0, "nice": 0, "ionice": 0, "sudo": 0, "env": 0, "flock": 1, "timeout": 0, "time": 0, "nohup": 0, "chronic": 0, "if": 0,
	"then": 0, "systemd-cat": 0, "run-one": 0, "bash": 0, "sh": 0, "python": 0, "python3": 0, "perl": 0, "ruby": 0, "php": 0, "node": 0,
}

const maxBase = 60 // bytes of a name, but for its number

// nameOf finds the program that a command is about.
func nameOf(command string) string {
	first := ""
	for part := range strings.FieldsFuncSeq(command, func(r rune) bool { return strings.ContainsRune(";&|()`$<>", r) }) {
		skip := 0
		for _, word := range strings.Fields(part) {
			word = strings.Trim(word, `"'`)
			base := strings.Trim(notName.ReplaceAllString(path.Base(word), "-"), "-._")
			more, pass := passed[path.Base(word)]
			if more == toTheEnd {
				first = firstOf(first, base)
				break
			}
			if base == "" || assignment.MatchString(word) || word[0] == '-' || strings.Trim(word, "0123456789smhd.") == "" {
				continue
			}
			if skip > 0 {
				skip--
				continue
			}
			skip = more
			if first = firstOf(first, base); !pass {
				return cut(strings.TrimSuffix(strings.TrimSuffix(base, ".sh"), ".py"), maxBase)
			}
		}
	}
	return cut(firstOf(first, "cron"), maxBase)
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// cut shortens a text to n bytes at a character's end.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return strings.TrimRight(s[:n], "-._ ")
}

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// A ledger fits a terminal, and tells the last time of a span.
func TestFiresFitATerminal(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 56, 40, 0, time.Local)
	last, late := at.Add(65*time.Second), job.Duration(75678*time.Millisecond)
	into := last.Add(5 * time.Second)
	const wall, id = "2026-11-29T12:56:40", "01M8P8JC5T000000085W000003"
	var buf bytes.Buffer
	tb := newTable(&buf)
	firesTable(tb, []client.Fire{
		{Nominal: at, Wall: wall, Origin: "plan", Verdict: "missed", Why: "downtime", Until: &last, Count: 14},
		{Nominal: at, Wall: wall, Origin: "plan", Verdict: "merged", Why: "newer", Into: &into},
		{Nominal: at, Wall: wall, Origin: "backfill", Verdict: "fired", Task: id, LateBy: &late, Actor: "backfill " + id},
		{Nominal: at, Wall: wall, Origin: "manual", Verdict: "fired", Task: id, Actor: "ann@a-desk-of-a-long-name"},
		{Nominal: at, Wall: wall, Origin: "plan", Verdict: "skipped", Why: "refused", Error: `workflow: does not exist (got "etl")`},
	}, at.Add(24*time.Hour))
	if err := tb.flush(); err != nil {
		t.Fatal(err)
	}
	out := buf.String()
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, " \n")); n > 120 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	words := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{
		"11-29 12:56:40 plan missed 14 - - downtime, last 12:57:45",
		"newer: 12:57:50",
		"manual fired 1 - task " + id + " by ann@a-desk-of-…",
		`workflow: does not exist (got "etl")`,
	} {
		if !strings.Contains(words, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// An event whose schedules are still asked has not come to nothing.
func TestWhatAnEventHasDoneSoFar(t *testing.T) {
	for want, e := range map[string]client.Event{
		"fired 2":                                {Fired: 2},
		"fired 0 so far, asks further schedules": {GoesOn: true},
		"had been sent before":                   {Fired: 2, GoesOn: true, Deduplicated: true},
	} {
		if got := sentAs(&e); got != want {
			t.Errorf("%+v: %q, want %q", e, got, want)
		}
	}
}

// What to do about a reason stands below its text, with nothing before it.
func TestAnExplanationFitsATerminal(t *testing.T) {
	var buf bytes.Buffer
	tb := newTable(&buf)
	explanationTable(tb, client.Explanation{Reasons: []client.Reason{{Code: "not_due", Text: "It is due later.", Next: "Wait."}}})
	if err := tb.flush(); err != nil {
		t.Fatal(err)
	}
	if out := buf.String(); !strings.Contains(out, "not_due  It is due later.\n         → Wait.\n") {
		t.Errorf("%q", out)
	}
}

// A fire tells what came of its list, or why that is owed still.
func TestWhatCameOfAList(t *testing.T) {
	next := time.Date(2026, 11, 29, 12, 56, 40, 0, time.Local)
	for want, l := range map[string]client.ComparedList{
		"list: 3 same": {State: "done", Tries: 1, Same: 3},
		"list: 0 same, 1 differ, 2 missing, 2 submitted, 1 replayed, 1 wrong": {
			State: "done", Differs: 1, Missing: 2, Submitted: 2, Replayed: 1, Wrong: 1,
		},
		"list owed":                              {State: "owed"},
		"list owed after 2 tries, next 12:56:40": {State: "owed", Tries: 2, NextTry: &next},
		"list failed after 1 try":                {State: "failed", Tries: 1},
		"list failed after 9 tries":              {State: "failed", Tries: 9},
	} {
		if got := madeBy(client.Fire{List: &l}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f := client.Fire{List: &client.ComparedList{State: "done", Differences: []client.ListDifference{{IdempotencyKey: "k1", Verdict: "differs", State: "failed"}}}}
	if got := whyOf(f); got != "k1 differs: failed" {
		t.Errorf("why %q", got)
	}
	f.List.LastError = "answered 503"
	if got := whyOf(f); got != "answered 503" {
		t.Errorf("why %q", got)
	}
}

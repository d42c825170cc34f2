package main

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/internal/definition"
)

// What another file set has is named, and where it is much it is counted: an export
// that is applied must not end in a page of notes.
func TestOthersAreNamedOrCounted(t *testing.T) {
	var p definition.Plan
	for i := range 7 {
		p.Steps = append(p.Steps, definition.Step{Kind: "job", Name: "j" + strconv.Itoa(i), OldSet: "many"})
	}
	p.Steps = append(p.Steps, definition.Step{Kind: "job", Name: "lone", OldSet: "few"}, definition.Step{Kind: "job", Name: "mine"})
	var said bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetErr(&said)
	tellOthers(cmd, &p, true)
	tellOthers(cmd, &p, false)
	want := "axd: job lone stays of file set few: --adopt takes it over\naxd: 7 definitions stay of file set many: --adopt takes them over\n"
	if said.String() != want {
		t.Errorf("said %s", said.String())
	}
}

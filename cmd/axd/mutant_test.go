//go:build !mutants

package main

import (
	"bytes"
	"os"
	"testing"
)

// TestNothingOfMutantsIsInAPlainBuild looks at this very program, which holds all of axd:
// faults that tests put in, and the choice among them, must not be part of it. The names
// of a program's functions are in it, stripped or not.
func TestNothingOfMutantsIsInAPlainBuild(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ours := []byte("axd-project/axd/") // joined at run time, so that this test is not what it finds
	for text, want := range map[string]bool{
		"fsm.(*Machine).Apply": true, "internal/mutant.is": false, "internal/mutant.init": false, "internal/mutant.Now": false, "internal/mutant.Shuffled": false,
	} {
		if got := bytes.Contains(program, append(bytes.Clone(ours), text...)); got != want {
			t.Errorf("%s is in the program: %v, want %v", text, got, want)
		}
	}
	if bytes.Contains(program, append([]byte("AXD_"), "MUTANT"...)) {
		t.Error("the program knows the variable that chooses a mutant")
	}
}

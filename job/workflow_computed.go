package job

import "bytes"

// Computed reports whether something of a step must be computed before it begins:
// an expression, the items of a for_each, or the parameters of another workflow. The
// leader does so, and proposes what came of it.
func (s *Step) Computed() bool {
	return s.When != "" || s.ForEach != nil || s.Workflow != "" || HoldsExpression(s.Payload)
}

// HoldsExpression reports whether a JSON text may hold ${{ expression }}.
func HoldsExpression(text []byte) bool { return bytes.Contains(text, []byte("${{")) }

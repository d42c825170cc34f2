package chaos

// CheckOutside is Check for a history of other work than the simulation's: it knows
// nothing of which jobs, workflows and schedules there are.
func CheckOutside(h History, limits Limits) []string {
	c := newCheck(h, limits)
	for _, step := range []func(){
		c.logs, c.answers, c.acknowledged, c.terminal, c.results, c.tokens, c.overlaps, c.starts, c.keys, c.cancels,
		c.reschedules, c.states,
	} {
		step()
	}
	return c.found
}

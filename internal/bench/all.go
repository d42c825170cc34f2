package bench

// All lists every scenario with its defaults, the short ones first.
func All() []Scenario {
	return []Scenario{
		DefaultIngest, Ingest{Tasks: 100_000, Batch: 1, Callers: 64, Payload: 100},
		DefaultImmediate, DefaultLateness, DefaultDrain, DefaultCommands, DefaultIdle, DefaultFailover, DefaultFootprint,
		Footprint{Tasks: 10_000_000, Payload: DefaultFootprint.Payload, Probe: DefaultFootprint.Probe},
		DefaultSoak,
	}
}

package bench

// All lists every scenario with its defaults, the short ones first.
func All() []Scenario {
	return []Scenario{
		DefaultIngest, Ingest{Tasks: 100_000, Batch: 1, Callers: 64, Payload: 100},
		DefaultImmediate, DefaultLateness, DefaultCron, DefaultDrain, DefaultPriority, DefaultCommands, DefaultIdle, DefaultRetry, DefaultFailover, DefaultWorkerFailover, DefaultFootprint,
		DefaultDag, DefaultWide, DefaultWorkflows,
		DefaultFootprint.with(10_000_000),
		DefaultSoak,
	}
}

func (s Footprint) with(tasks int) Footprint {
	s.Tasks = tasks
	return s
}

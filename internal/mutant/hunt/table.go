package main

// check is a part of the tests that should find a mutant.
type check struct {
	tier string   // what it is called in the report
	pkg  string   // whose tests
	run  string   // which of them, as go test -run wants it
	args []string // more arguments of the tests
	env  []string
}

func tests(pkg, run string) check { return check{tier: "tests", pkg: pkg, run: run} }

func script(name string) check {
	return check{tier: "script", pkg: "fsm", run: "^TestScripts$/^" + name + "$"}
}

// The random tests are run from a fixed seed, so that what they find is found again.
var (
	walk     = check{tier: "walk", pkg: "fsm", run: "^TestWalk$"}
	model    = check{tier: "model", pkg: "fsm", run: "^TestModel$", args: []string{"-rapid.seed=1", "-rapid.shrinktime=1s"}}
	runModel = check{tier: "model", pkg: "fsm", run: "^TestRunModel$", args: []string{"-rapid.seed=1", "-rapid.shrinktime=1s"}}
)

// simulation runs so many random plans in which leaders change.
func simulation(plans string) check {
	return check{
		tier: "simulation", pkg: "chaos", run: "^TestSimulation$",
		env: []string{"AXD_SIM_FAULTS=kill-server,transfer,isolate", "AXD_SIM_SEEDS=" + plans},
	}
}

// mutant is a fault of package mutant, with the checks that should find it, the
// quickest first.
type mutant struct {
	name   string
	checks []check
}

var mutants = []mutant{
	{"any-token", []check{model}},
	{"any-term", []check{model}},
	{"any-version", []check{model}},
	{"map-order", []check{walk}},
	{"clock-in-apply", []check{walk}},
	{"cache-in-apply", []check{walk}},
	{"clock-back", []check{model}},
	{"counter-kept", []check{walk}},
	{"limit-kept", []check{walk}},
	{"retries-forgotten", []check{model}},
	{"ended-again", []check{walk}},
	{"key-forever", []check{model}},
	{"key-lost", []check{model}},
	{"counted-twice", []check{runModel}},
	{"fired-twice", []check{tests("fsm", "^TestATimeIsFiredOnce$")}},
	{"callback-early", []check{walk}},
	{"callback-lost", []check{script("callbacks")}},
	{"epoch-kept", []check{tests("fsm", "^TestRebase$")}},

	{"ack-uncommitted", []check{tests("raftnode", "^TestOutcomesAreWhatTheySay$"), simulation("6")}},
	{"ack-unsynced", []check{tests("raftnode", "^TestNothingIsCommittedBeforeTheLeaderHasIt$")}},
	{"unasked-leader", []check{tests("raftnode", "^TestStaleLeaderRefusesReads$|^TestStoppedLeaderServesNoOldRead$")}},
	{"stale-read", []check{tests("raftnode", "^TestThreeServersCommitAndRead$"), simulation("4")}},
	{"fast-heartbeat", []check{tests("raftnode", "^TestHeartbeatsHaveNoFastPath$")}},
	{"endless-read", []check{tests("raftnode", "^TestStalledSenderFreesTheReceiver$")}},
	{"unsynced", []check{tests("raftnode", "^TestLogFileIsSynced$")}},
	{"loss-hidden", []check{tests("raftnode", "^TestTermQueueNeverHidesALoss$")}},
	{"unsealed", []check{tests("raftnode", "^TestDamagedEntriesDontReachRaft$")}},

	{"unflushed", []check{tests("store", "^TestCheckpointOpens$|^TestConformance$")}},
	{"temp-kept", []check{tests("store", "^TestOpenSweeps$")}},

	{"no-barrier", []check{simulation("4")}},
	{"sessions-kept", []check{tests("server", "^TestARestoreEndsSessions$")}},
	{"nothing-rebuilt", []check{tests("scheduler", "^TestANewLeader"), simulation("4")}},
	{"lease-by-gossip", []check{tests("scheduler", "^TestAttemptsAreLostOnlyAfterTheLease$")}},
	{"cancel-unsent", []check{tests("scheduler", "^TestCancelAtEveryStage$")}},
	{"new-delivery", []check{tests("server", "^TestANewLeaderSendsWhatIsOwed$|^TestK9_04")}},

	{"lease-ignored", []check{tests("worker", "^TestHandlerStopsBeforeTheLeaseEnds$")}},
	{"lease-from-answer", []check{tests("worker", "^TestLeaseCountsFromSending$")}},
	{"start-early", []check{tests("worker", "^TestArmedAttemptsStartInTimeWithoutASlotBefore$")}},
	{"result-unkept", []check{tests("worker", "^TestResultsOutliveARestart$")}},
	{"old-term", []check{tests("worker", "^TestDeposedLeaderGetsNoSession$|^TestDeposedLeadersDispatchIsDropped$")}},
}

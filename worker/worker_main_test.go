package worker

// workerMain runs a worker as a process of its own, to be killed and stopped.
func workerMain([]string) int { return 2 }

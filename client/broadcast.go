package client

// Broadcast is what has become of a task that goes to every worker that fits. Until it
// is decided which those are, all is 0.
type Broadcast struct {
	Workers   int `json:"workers"` // that it goes to: each has a part, a task of its own
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"` // or timed out
	Cancelled int `json:"cancelled"`
	Open      int `json:"open"` // have not ended
}

// Part is the task of one worker of a broadcast.
type Part struct {
	ID        string `json:"id"`
	Worker    string `json:"worker"`
	State     string `json:"state"`
	LastError string `json:"last_error,omitempty"`
}

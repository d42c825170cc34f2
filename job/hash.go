package job

import (
	"bytes"
	"crypto/sha256"

	"github.com/vmihailenco/msgpack/v5"
)

// RequestHash identifies what a request asks for: job, executor, policy, due
// time or delay, and the payload's bytes. Two requests under one idempotency
// key are the same if their hashes are equal. The key itself and its window
// are left out.
//
// It hashes the row encoding with sorted maps, so that a field added later
// leaves the hash of requests without it as it was.
func RequestHash(t TaskSpec) [16]byte {
	t.IdempotencyKey, t.IdempotencyWindow = "", 0
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.UseCompactInts(true)
	enc.SetSortMapKeys(true)
	if err := enc.Encode(&t); err != nil {
		panic("job: a task's spec can't be encoded: " + err.Error()) // no field can fail
	}
	sum := sha256.Sum256(b.Bytes())
	return [16]byte(sum[:16])
}

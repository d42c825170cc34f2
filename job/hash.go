package job

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/vmihailenco/msgpack/v5"
)

// RequestHash identifies what a request asks for: job, executor, policy, due
// time or delay, and the payload's bytes. Two requests under one idempotency
// key are the same if their hashes are equal. The idempotency key itself, its
// window and policy are left out, and with a period the time.
//
// It hashes the parts that are there, each behind its name and length, so that a
// part added later leaves the hash of requests without it as it was.
func RequestHash(t TaskSpec) [16]byte {
	var room [1 << 10]byte // most requests fit, and cost no allocation
	b := appendPart(room[:0], 'J', t.Job)
	b = appendPart(b, 'f', t.Handler)
	b = appendNumber(b, 'p', int64(t.Priority))
	if t.IdempotencyPeriod == 0 { // else the period stands for the time
		b = appendNumber(b, 'T', t.Due)
		b = appendNumber(b, 'L', int64(t.Delay))
	}
	b = appendPart(b, 'P', t.Payload)
	b = appendPart(b, 'U', t.UniqueKey)
	if t.Exec != nil || t.HTTP != nil || !t.Policy.PriorityOnly() {
		b = appendPart(b, 'r', encodeRest(t))
	}
	sum := sha256.Sum256(b)
	return [16]byte(sum[:16])
}

// encodeRest encodes what RequestHash doesn't put down itself, with sorted maps.
func encodeRest(t TaskSpec) []byte {
	rest := TaskSpec{Executor: t.Executor, Policy: t.Policy}
	rest.Handler, rest.Priority = "", 0
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.UseCompactInts(true)
	enc.SetSortMapKeys(true)
	if err := enc.Encode(&rest); err != nil {
		panic("job: a task's spec can't be encoded: " + err.Error()) // no field can fail
	}
	return b.Bytes()
}

func appendPart[T string | []byte](b []byte, name byte, v T) []byte {
	if len(v) == 0 {
		return b
	}
	b = binary.AppendUvarint(append(b, name), uint64(len(v)))
	return append(b, v...)
}

func appendNumber(b []byte, name byte, v int64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendVarint(append(b, name), v)
}

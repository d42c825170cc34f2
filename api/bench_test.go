package api

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/axd-project/axd/client"
)

// BenchmarkDecodeBatch reads a batch of 500 keyed tasks with payloads of a hundred
// bytes, all but its proposal.
func BenchmarkDecodeBatch(b *testing.B) {
	const tasks = 500
	var body bytes.Buffer
	body.WriteString(`{"tasks":[`)
	for i := range tasks {
		if i > 0 {
			body.WriteByte(',')
		}
		body.WriteString(`{"job":"mail","payload":{"to":"someone@example.org","subject":"a payload of about a hundred bytes","n":123456},` +
			`"delay":"24h","idempotency_key":"order-` + strconv.Itoa(i) + `"}`)
	}
	body.WriteString("]}")
	b.ReportAllocs()
	for b.Loop() {
		var in client.BatchRequest
		if err := decode(body.Bytes(), &in); err != nil {
			b.Fatal(err)
		}
		all := &batch{results: make([]client.BatchResult, len(in.Tasks))}
		for i, raw := range in.Tasks {
			if err := all.add(i, raw); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tasks), "ns/task")
}

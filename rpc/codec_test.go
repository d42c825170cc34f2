package rpc

import (
	"reflect"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/axd-project/axd/internal/packshape"
)

func codecSamples() []any {
	code := -1
	ref := Ref{Namespace: "default", ID: [16]byte{1, 2}, Attempt: 3, Token: Token{4, 5}}
	return []any{
		&Ref{}, &ref,
		&Dispatch{Items: []DispatchItem{}},
		&Dispatch{Term: 1 << 40, NowUS: -1, Items: []DispatchItem{{}, {
			Ref: ref, Job: "j", JobVersion: 7, Executor: []byte("x"), Payload: []byte("p"), DueMS: 1 << 41, TimeoutMS: 1, EndByMS: 1 << 42, HeartbeatMS: 4, GraceMS: 2,
			SuccessCodes: []int{0, -4, 1 << 20}, Continue: true, MaxRetries: 9, Lesser: true, MostLesser: 5,
			Origin: &Origin{Run: [16]byte{7}, Step: "s", Schedule: "n", NominalMS: 1 << 41},
		}}},
		&Finished{Results: []FinishedResult{}},
		&Finished{Results: []FinishedResult{{Ref: ref, Result: []byte("r")}, {}}},
		&Started{Items: []StartedItem{{Ref: ref, AtMS: 12}}},
		&AttemptResult{},
		&AttemptResult{
			Outcome: 3, ExitCode: &code, Error: "e", Started: 1, Ended: 2, Stdout: []byte("o"), Stderr: []byte("r"),
			Output: []byte("u"), LateStart: 4,
		},
	}
}

func TestCodecsRoundTrip(t *testing.T) {
	for _, v := range codecSamples() {
		b, err := msgpack.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := packshape.Check(b); err != nil {
			t.Errorf("%+v: %v", v, err)
		}
		got := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		if err := decodeBody(b, got); err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("got %+v, %v, want %+v", got, err, v)
		}
		for n := range b { // whatever is missing is an error, never a part
			if err := decodeBody(b[:n], reflect.New(reflect.TypeOf(v).Elem()).Interface()); err == nil {
				t.Errorf("%T: %d bytes of %d are taken", v, n, len(b))
			}
		}
	}
}

// Whatever bytes come, decoding is an error or a message that encodes again.
func FuzzDecodeMessages(f *testing.F) {
	for _, v := range codecSamples() {
		b, err := msgpack.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, v := range []any{&Dispatch{}, &Finished{}, &Started{}, &AttemptResult{}, &GiveBack{}, &WorkerHello{}} {
			if decodeBody(b, v) != nil {
				continue
			}
			if _, err := msgpack.Marshal(v); err != nil {
				t.Errorf("%+v: %v", v, err)
			}
		}
	})
}

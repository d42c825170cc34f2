package fsm

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/axd-project/axd/job"
)

// fill sets every field of a value to something that isn't zero, and no two of
// a kind to the same.
func fill(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		for range 3 {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(k, n)
			fill(e, n)
			m.SetMapIndex(k, e)
		}
		v.Set(m)
	case reflect.String:
		v.SetString(strconv.FormatInt(*n, 10))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	case reflect.Uint8:
		v.SetUint(uint64(*n%3 + 1))
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Int, reflect.Int64:
		v.SetInt(*n << (*n % 40))
	default:
		panic("fill: " + v.Type().String())
	}
}

func filled[T any]() (x T) {
	n := int64(0)
	fill(reflect.ValueOf(&x).Elem(), &n)
	return x
}

// reads checks that what is written and read by hand is what the struct tags
// describe, for a value with every field set and for one with none.
func reads[T any](t *testing.T, encodeByHand func(*T) []byte) {
	t.Helper()
	c := newCodec()
	for _, want := range []T{filled[T](), *new(T)} {
		byTags, err := c.encode(nil, &want)
		if err != nil {
			t.Fatal(err)
		}
		byTags = bytes.Clone(byTags)
		for how, read := range map[string]func(*T) error{
			"written by hand, read by tags": func(v *T) error { return c.decodeTagged(encodeByHand(&want), v) },
			"written by tags, read by hand": func(v *T) error { return c.decode(byTags, v) },
			"written and read by hand":      func(v *T) error { return c.decode(encodeByHand(&want), v) },
		} {
			var got T
			if err := read(&got); err != nil {
				t.Fatalf("%T %s: %v", got, how, err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%T %s:\n%+v\n%+v", got, how, want, got)
			}
		}
	}
}

func TestHandWrittenCodecsFollowTheTags(t *testing.T) {
	c := newCodec()
	reads(t, func(v *Task) []byte { return c.appendTask(nil, v) })
	reads(t, func(v *Body) []byte { return c.appendBody(nil, v) })
	reads(t, func(v *Attempt) []byte { return appendAttempt(nil, v) })
	reads(t, func(v *metaRow) []byte { return appendMeta(nil, v) })
	reads(t, func(v *Submit) []byte { return c.appendSubmit(nil, v) })
	reads(t, func(v *Assign) []byte { return appendAssign(nil, v) })
	reads(t, func(v *Alert) []byte { return appendAlert(nil, v) })
	plainTask := Task{State: job.Pending, Policy: job.Policy{Priority: job.Low}}
	var got Task
	if err := decode(c.appendTask(nil, &plainTask), &got); err != nil || !reflect.DeepEqual(got, plainTask) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestPolicyWithOneField holds the short form of a policy to those that set
// nothing but the priority.
func TestPolicyWithOneField(t *testing.T) {
	c := newCodec()
	typ := reflect.TypeFor[job.Policy]()
	for i := range typ.NumField() {
		var want, got job.Policy
		n := int64(0)
		fill(reflect.ValueOf(&want).Elem().Field(i), &n)
		if err := decode(c.appendPolicy(nil, &want), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: wrote %+v, read %+v, %v", typ.Field(i).Name, want, got, err)
		}
	}
}

// TestSizesOfValues goes over the lengths and numbers at which the encoding
// changes its form.
func TestSizesOfValues(t *testing.T) {
	for _, n := range []int{1, 31, 32, 255, 256, 65_535, 65_536} {
		want := AttemptResult{Error: strings.Repeat("s", n), Stdout: bytes.Repeat([]byte{7}, n)}
		var got AttemptResult
		if err := decode(appendAttemptResult(nil, &want), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("length %d: %v", n, err)
		}
	}
	for _, n := range []int64{
		1, 127, 128, 255, 256, 65_535, 65_536, math.MaxUint32, math.MaxUint32 + 1, math.MaxInt64, -1, -32, -33, math.MinInt64,
	} {
		code := int(n)
		want := AttemptResult{Started: n, ExitCode: &code}
		var got AttemptResult
		if err := decode(appendAttemptResult(nil, &want), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("number %d: %+v, %v", n, got, err)
		}
	}
}

func TestBinaryRows(t *testing.T) {
	a := filled[activeRow]()
	if got, ok := decodeActive(appendActive(nil, a)); !ok || got != a {
		t.Errorf("%+v, %v", got, ok)
	}
	k := filled[keyRow]()
	if got, ok := decodeKeyRow(appendKeyRow(nil, k)); !ok || got != k {
		t.Errorf("%+v, %v", got, ok)
	}
	for n := range 20 {
		if _, ok := decodeActive(make([]byte, n)); ok {
			t.Errorf("an active row of %d bytes was read", n)
		}
		if _, ok := decodeKeyRow(make([]byte, n)); ok {
			t.Errorf("a key row of %d bytes was read", n)
		}
	}
}

// everyCommand returns each verb with every field set.
func everyCommand() []Command {
	return []Command{
		filled[Configure](), filled[PutJob](), filled[DeleteJob](), filled[Submit](), filled[Assign](),
		filled[Started](), filled[Finished](), filled[GiveBack](), filled[LoseAttempts](), filled[Cancel](),
		filled[Reschedule](), filled[RegisterWorker](), filled[WorkerState](), filled[ForgetWorker](),
		filled[Expire](), filled[Checksum](), filled[DrainWorker](),
		filled[PutSecret](), filled[DeleteSecret](), filled[SubmitNow](), filled[TimeOut](), filled[PutAlert](), filled[EndAlert](),
		filled[DeadLetters](), filled[ContinueDead](),
		filled[CallbackTried](), filled[Redeliver](),
		filled[PutWorkflow](), filled[DeleteWorkflow](), filled[StartRun](), filled[CancelRun](), filled[RerunRun](),
		filled[ForceSuccess](), filled[SkipStep](), filled[ContinueRun](), filled[TimeOutRun](),
		filled[PutSchedule](), filled[DeleteSchedule](), filled[PauseSchedule](), filled[TriggerSchedule](), filled[FireSchedules](),
		filled[ContinueSchedules](), filled[EndJoins](), filled[JudgeJoins](),
		filled[StepVerdict](),
		filled[PutCalendar](), filled[DeleteCalendar](),
		filled[RecordDone](), filled[Broadcast](), filled[ContinueBroadcast](), filled[EndParts](),
		filled[By](), filled[SendEvent](), filled[PutBackfill](), filled[CancelBackfill](),
		filled[ListFetched](), filled[CancelDeadAct](), filled[PauseJob](),
	}
}

func TestCommandsRoundTrip(t *testing.T) {
	seen := map[Code]bool{}
	for _, want := range everyCommand() {
		seen[want.Code()] = true
		b, err := EncodeCommand(want)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := EncodeCommand(want)
		if !reflect.DeepEqual(b, again) {
			t.Errorf("%T: encoded twice, it differs", want)
		}
		got, err := decodeCommand(newCodec(), b)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(reflect.ValueOf(got).Elem().Interface(), want) {
			t.Errorf("%T: wrote and read differ:\n%+v\n%+v", want, want, got)
		}
	}
	for code := range Code(255) {
		if known([]byte{byte(code)}) != seen[code] {
			t.Errorf("code %d: known %v, covered by this test %v", code, !seen[code], seen[code])
		}
	}
}

func filledAttest() *Attestation {
	a := filled[Attestation]()
	return &a
}

func TestEntryRoundTrip(t *testing.T) {
	for _, want := range []Entry{{}, {At: 5}, {At: 1 << 50, Attest: filledAttest(), Commands: [][]byte{{1}, {}, make([]byte, 70_000)}}} {
		b, err := EncodeEntry(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeEntry(b)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Attest, want.Attest) {
			t.Errorf("attestation %+v, got %+v", want.Attest, got.Attest)
		}
		if got.At != want.At || len(got.Commands) != len(want.Commands) {
			t.Errorf("want %+v, got %+v", want, got)
		}
		for i := range got.Commands {
			if string(got.Commands[i]) != string(want.Commands[i]) {
				t.Errorf("command %d differs", i)
			}
		}
	}
}

func TestResultRoundTrip(t *testing.T) {
	want := filled[Result]()
	for _, n := range []int{2, 1} {
		want.Tasks = want.Tasks[:n]
		got, err := DecodeResult(EncodeResult(want))
		if err != nil {
			t.Fatal(err)
		}
		if n > 1 { // a batch's answer leaves the tasks out
			for i := range got.Tasks {
				if got.Tasks[i].Task != nil {
					t.Errorf("task %d of a batch is carried whole", i)
				}
				got.Tasks[i].Task = want.Tasks[i].Task
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("wrote and read differ:\n%+v\n%+v", want, got)
		}
	}
}

// A map that isn't written in the order of its keys would make replicas differ.
// msgpack sorts maps from strings to strings; every other needs an encoder of its own.
func TestMapsAreWrittenInOrder(t *testing.T) {
	sorted := reflect.TypeFor[map[string]string]()
	encoder := reflect.TypeFor[msgpack.CustomEncoder]()
	seen := map[reflect.Type]bool{}
	var look func(path string, typ reflect.Type)
	look = func(path string, typ reflect.Type) {
		if seen[typ] || typ.Implements(encoder) {
			return
		}
		seen[typ] = true
		switch typ.Kind() {
		case reflect.Map:
			if typ != sorted {
				t.Errorf("%s is a %s, which msgpack writes in any order", path, typ)
			}
		case reflect.Pointer, reflect.Slice, reflect.Array:
			look(path, typ.Elem())
		case reflect.Struct:
			for _, f := range reflect.VisibleFields(typ) {
				if f.IsExported() && f.Tag.Get("msgpack") != "-" {
					look(path+"."+f.Name, f.Type)
				}
			}
		}
	}
	for _, c := range everyCommand() {
		look(fmt.Sprintf("%T", c), reflect.TypeOf(c))
	}
	for _, row := range []any{Task{}, Secret{}, Body{}, Attempt{}, Job{}, Worker{}, Alert{}, Origin{}, metaRow{}, Breaker{}, Callback{}, Audit{}, SentEvent{}, Backfill{}, job.Settings{},
		Schedule{}, ScheduleState{}, Fire{}, ScheduleAct{}, Calendar{}, Join{}} {
		look(fmt.Sprintf("%T", row), reflect.TypeOf(row))
	}
}

package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func TestDecodeRefuses(t *testing.T) {
	tests := []struct{ name, body, field, rule string }{
		{"nothing", ``, "body", "not empty"},
		{"blanks", " \n", "body", "not empty"},
		{"cut", `{"job":"a"`, "body", "unexpected end"},
		{"two documents", `{"job":"a"}{"job":"b"}`, "body", "after top-level value"},
		{"trailing text", `{"job":"a"} x`, "body", "after top-level value"},
		{"trailing comma", `{"job":"a",}`, "body", "looking for beginning"},
		{"single quotes", `{'job':'a'}`, "body", "looking for beginning"},
		{"NaN", `{"retry":{"factor":NaN}}`, "body", "invalid character 'N'"},
		{"byte order mark", "\ufeff{}", "body", "invalid character"},
		{"bad UTF-8", "{\"job\":\"a\xff\"}", "body", "valid UTF-8"},
		{"half a surrogate pair", `{"job":"a\ud800b"}`, "job", "Unicode"},
		{"low surrogate first", `{"job":"\udc00\ud800"}`, "job", "Unicode"},
		{"two high surrogates", `{"job":"\ud800\ud800\udc00"}`, "job", "Unicode"},
		{"surrogate in a name", `{"\ud800":1}`, "", "Unicode"},
		{"null document", `null`, "", "must be an object, not null"},
		{"array document", `[]`, "", "must be an object, not an array"},
		{"string document", `"a"`, "", "must be an object, not a string"},
		{"unknown field", `{"jobb":"a"}`, "jobb", "is not a field"},
		{"other case", `{"Job":"a"}`, "Job", `written "job"`},
		{"unknown, deep", `{"exec":{"command":["a"],"limits":{"ram":1}}}`, "exec.limits.ram", "is not a field"},
		{"unknown with dots", `{"a.b":1}`, `["a.b"]`, "is not a field"},
		{"empty name", `{"":1}`, `[""]`, "is not a field"},
		{"long unknown", `{"` + strings.Repeat("x", 5000) + `":1}`, `["` + strings.Repeat("x", 64) + `"…]`, "is not a field"},
		{"double", `{"job":"a","job":"a"}`, "job", "once"},
		{"double, escaped", `{"job":"a","j\u006fb":"a"}`, "job", "once"},
		{"double in a map", `{"exec":{"command":["a"],"env":{"A":"1","A":"2"}}}`, `exec.env["A"]`, "once"},
		{"number for text", `{"job":1}`, "job", "must be a string, not a number"},
		{"object for text", `{"handler":{}}`, "handler", "must be a string, not an object"},
		{"text for object", `{"exec":"ls"}`, "exec", "must be an object, not a string"},
		{"object for array", `{"exec":{"command":{}}}`, "exec.command", "must be an array, not an object"},
		{"array for map", `{"selector":[]}`, "selector", "must be an object, not an array"},
		{"null element", `{"exec":{"command":["a",null]}}`, "exec.command[1]", "not be null"},
		{"null in a map", `{"exec":{"command":["a"],"env":{"A":null}}}`, `exec.env["A"]`, "not be null"},
		{"number element", `{"exec":{"command":["a",1]}}`, "exec.command[1]", "must be a string"},
		{"fraction for integer", `{"retry":{"max_retries":1.5}}`, "retry.max_retries", "integer"},
		{"exponent for integer", `{"retry":{"max_retries":1e2}}`, "retry.max_retries", "integer"},
		{"text for integer", `{"success_codes":["0"]}`, "success_codes[0]", "must be an integer, not a string"},
		{"huge integer", `{"retry":{"max_retries":18446744073709551616}}`, "retry.max_retries", "integer"},
		{"huge number", `{"retry":{"factor":1e400}}`, "retry.factor", "64-bit"},
		{"bare duration", `{"delay":90}`, "delay", "with a unit"},
		{"duration without unit", `{"delay":"90"}`, "delay", "with a unit"},
		{"endless duration", `{"timeout":"99999999999999h"}`, "timeout", "292 years"},
		{"priority", `{"priority":"urgent"}`, "priority", "high, normal or low"},
		{"empty priority", `{"priority":""}`, "priority", "high, normal or low"},
		{"priority as number", `{"priority":1}`, "priority", "must be a string, not a number"},
		{"nested far", `{"payload":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, "body", "depth"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var in client.SubmitRequest
			err := decode([]byte(tt.body), &in)
			if err == nil {
				t.Fatal("taken")
			}
			if err.Code != job.CodeInvalid || err.Field != tt.field || !strings.Contains(err.Rule, tt.rule) {
				t.Errorf("got %s %q: %s", err.Code, err.Field, err.Rule)
			}
			if len(err.Value) > 300 {
				t.Errorf("the error repeats %d bytes", len(err.Value))
			}
		})
	}
}

func TestDecodeRefusesTimes(t *testing.T) {
	for body, rule := range map[string]string{
		`{"from":1}`:           "must be a string, not a number",
		`{"from":"yesterday"}`: "must be an RFC 3339 time with an offset",
		`{"from":""}`:          "must be an RFC 3339 time with an offset",
	} {
		err := decode([]byte(body), new(client.BackfillRequest))
		if err == nil || err.Code != job.CodeInvalid || err.Field != "from" || !strings.Contains(err.Rule, rule) {
			t.Errorf("%s: %+v", body, err)
		}
	}
}

func TestDecodeTooManyEntries(t *testing.T) {
	var in client.SubmitRequest
	err := decode([]byte(`{"success_codes":[`+strings.Repeat("0,", maxElements)+`0]}`), &in)
	if err == nil || err.Code != job.CodeTooLarge || err.Field != "success_codes" || err.Value != "10001" {
		t.Errorf("got %v", err)
	}
}

func TestDecodeTakes(t *testing.T) {
	body := "\t{ \"job\" : null, \"exec\":{\"command\":[\"\\u0061\\ud83d\\ude00\\\\ud800\"],\"env\":{\"A\":\"\"},\"limits\":{\"cpu\":0.5,\"memory\":9007199254740993}},\r\n" +
		" \"delay\":\"1h30m\", \"timeout\":null, \"priority\":\"high\", \"payload\": [ 1 ,2 ] } \n"
	var in client.SubmitRequest
	if err := decode([]byte(body), &in); err != nil {
		t.Fatal(err)
	}
	if got := in.Exec.Command[0]; got != "a😀\\ud800" {
		t.Errorf("command %q", got)
	}
	if in.Exec.Limits.CPU != 0.5 || in.Exec.Limits.Memory != 9007199254740993 {
		t.Errorf("limits %+v", in.Exec.Limits)
	}
	if in.Delay == nil || in.Delay.String() != "1h30m" || in.Timeout != nil || in.Priority != job.High {
		t.Errorf("got %+v", in)
	}
	if string(in.Payload) != "[ 1 ,2 ]" {
		t.Errorf("payload %q", in.Payload)
	}
}

// FuzzScan compares the cutting of documents with encoding/json's.
func FuzzScan(f *testing.F) {
	for _, s := range []string{`{}`, ` { "a" : [1,{"b":"}\""}] , "c":null}`, `[]`, `[ "\\", -1.5e3 ,[[]],{} ]`, `{"a":"\\\\\"","b":1}`, `[[[`, `1`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if checkJSON(data) != nil {
			return
		}
		raw := bytes.Trim(data, " \t\r\n")
		if end := skipValue(raw, 0); end != len(raw) {
			t.Fatalf("%q ends at %d", raw, end)
		}
		var got []string
		collect := func(v []byte) { got = append(got, string(v)) }
		var want []json.RawMessage
		switch raw[0] {
		case '[':
			_ = elements(raw, func(_ int, v []byte) *job.Error { collect(v); return nil })
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
		case '{':
			_ = members(raw, func(_, v []byte) *job.Error { collect(v); return nil })
			dec := json.NewDecoder(bytes.NewReader(raw))
			_, _ = dec.Token()
			for dec.More() {
				_, _ = dec.Token()
				var v json.RawMessage
				if err := dec.Decode(&v); err != nil {
					t.Fatal(err)
				}
				want = append(want, v)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %d parts, want %d", raw, len(got), len(want))
		}
		for i := range want {
			if got[i] != string(want[i]) {
				t.Errorf("part %d is %q, want %q", i, got[i], want[i])
			}
		}
	})
}

// FuzzSubmit looks for panics, for errors that name nothing, and for requests
// that the standard decoder reads otherwise.
func FuzzSubmit(f *testing.F) {
	for _, s := range []string{
		`{"job":"a","payload":{"a":9007199254740993}}`, `{"exec":{"command":["a","b"],"env":{"A":"1"}},"delay":"2d"}`,
		`{"http":{"url":"http://h/","headers":{"A":"b"}},"retry":{"max_retries":3,"jitter":0.5}}`,
		`{"handler":"h","execute_time":"2026-12-01T02:00:00+02:00","idempotency_key":"k","idempotency_window":"1h"}`,
		`{"job":null,"success_codes":[0,1],"on_disconnect":"continue"}`, `{"a":1}`, `{"job":"\ud800"}`, "{\"job\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var in client.SubmitRequest
		err := decode(data, &in)
		if err != nil {
			if answers[err.Code].status/100 != 4 || err.Rule == "" {
				t.Errorf("error %#v", err)
			}
			return
		}
		std := json.NewDecoder(bytes.NewReader(data))
		std.DisallowUnknownFields()
		var want client.SubmitRequest
		if err := std.Decode(&want); err != nil && !errors.Is(err, job.ErrInvalid) {
			t.Fatalf("the standard decoder refuses %q: %v", data, err)
		}
		if len(in.Payload) > 0 && !bytes.Contains(data, in.Payload) {
			t.Errorf("payload %q is not in %q", in.Payload, data)
		}
		got, _ := json.Marshal(in)
		expected, _ := json.Marshal(want)
		if !bytes.Equal(got, expected) {
			t.Errorf("%q read as %s, want %s", data, got, expected)
		}
		if spec, err := readTask(&in, ""); err == nil && len(spec.Payload) > job.MaxPayload {
			t.Error("too large a payload passed")
		}
	})
}

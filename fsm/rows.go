package fsm

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/axd-project/axd/job"
)

// The rows that every verb writes are encoded here by hand, ten times faster
// than by reflection, and read by hand in rowreader.go; the format is the one that
// the struct tags describe, and tests hold the two together.

// rowWriter appends a msgpack map whose fields are left out when zero.
type rowWriter struct {
	b      []byte
	start  int
	fields uint16
}

func beginRow(b []byte) rowWriter {
	return rowWriter{b: append(b, msgpcode.Map16, 0, 0), start: len(b)}
}

// end fills in the number of fields.
func (w *rowWriter) end() []byte {
	binary.BigEndian.PutUint16(w.b[w.start+1:], w.fields)
	return w.b
}

func (w *rowWriter) field(name byte) {
	w.fields++
	w.b = append(w.b, msgpcode.FixedStrLow|1, name)
}

func (w *rowWriter) str(name byte, s string) {
	if s != "" {
		w.field(name)
		w.b = appendString(w.b, s)
	}
}

func (w *rowWriter) bytes(name byte, v []byte) {
	if len(v) > 0 {
		w.field(name)
		w.b = appendBytes(w.b, v)
	}
}

func (w *rowWriter) uint(name byte, v uint64) {
	if v != 0 {
		w.field(name)
		w.b = appendUint(w.b, v)
	}
}

func (w *rowWriter) int(name byte, v int64) {
	if v != 0 {
		w.field(name)
		w.b = appendInt(w.b, v)
	}
}

func (w *rowWriter) bool(name byte, v bool) {
	if v {
		w.field(name)
		w.b = append(w.b, msgpcode.True)
	}
}

func (w *rowWriter) intPtr(name byte, v *int) {
	if v != nil {
		w.field(name)
		w.b = appendInt(w.b, int64(*v))
	}
}

func (w *rowWriter) id(name byte, id job.ID) {
	if !id.IsZero() {
		w.field(name)
		w.b = appendBytes(w.b, id[:])
	}
}

func (w *rowWriter) token(name byte, t job.Token) {
	if !t.IsZero() {
		w.field(name)
		w.b = append(w.b, msgpcode.FixedArrayLow|3)
		w.b = appendUint(w.b, uint64(t.Epoch))
		w.b = appendUint(w.b, t.Index)
		w.b = appendUint(w.b, uint64(t.Offset))
	}
}

func appendString(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		b = append(b, msgpcode.FixedStrLow|byte(n))
	case n <= math.MaxUint8:
		b = append(b, msgpcode.Str8, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, msgpcode.Str16), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, msgpcode.Str32), uint32(n)) //nolint:gosec // rows are small
	}
	return append(b, s...)
}

func appendBytes(b, v []byte) []byte {
	switch n := len(v); {
	case n <= math.MaxUint8:
		b = append(b, msgpcode.Bin8, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, msgpcode.Bin16), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, msgpcode.Bin32), uint32(n)) //nolint:gosec // rows are small
	}
	return append(b, v...)
}

func appendUint(b []byte, v uint64) []byte {
	switch {
	case v <= math.MaxInt8:
		return append(b, byte(v))
	case v <= math.MaxUint8:
		return append(b, msgpcode.Uint8, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, msgpcode.Uint16), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, msgpcode.Uint32), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, msgpcode.Uint64), v)
}

func appendInt(b []byte, v int64) []byte {
	if v >= 0 {
		return appendUint(b, uint64(v))
	}
	return binary.BigEndian.AppendUint64(append(b, msgpcode.Int64), uint64(v)) //nolint:gosec // two's complement
}

// appendTask appends a Task's row.
func (c *codec) appendTask(b []byte, t *Task) []byte {
	w := beginRow(b)
	w.str('n', t.Namespace)
	w.field('i')
	w.b = appendBytes(w.b, t.ID[:])
	w.uint('v', t.Version)
	w.uint('s', uint64(t.State))
	w.str('j', t.Job)
	w.str('K', t.Offer)
	w.field('p')
	w.b = c.appendPolicy(w.b, &t.Policy)
	w.int('d', t.Due)
	w.bool('r', t.Retry)
	w.int('c', t.Created)
	w.int('D', t.Dispatched)
	w.int('S', t.Started)
	w.int('e', t.Ended)
	w.uint('a', uint64(t.Attempt))
	w.int('R', int64(t.Retries))
	w.int('M', int64(t.MaxRetries))
	w.token('k', t.Token)
	w.token('l', t.LastToken)
	w.str('w', t.Worker)
	w.intPtr('x', t.ExitCode)
	w.str('E', t.Error)
	w.str('y', t.IdempotencyKey)
	w.int('Y', t.KeyExpiry)
	w.str('O', t.KeyPeriod)
	w.str('U', t.UniqueKey)
	w.bool('q', t.CancelRequested)
	w.bool('b', t.HasBody)
	w.bytes('B', t.Body)
	w.bool('A', t.Limited)
	w.str('G', t.ConcurrencyKey)
	w.str('H', t.RateKey)
	w.str('J', t.Holds)
	w.int('u', t.WantDue)
	w.uint('P', uint64(t.WantPriority))
	w.bool('L', t.TooLate)
	w.bool('X', t.Dead)
	w.id('C', t.Compensates)
	w.id('Z', t.CompensatedBy)
	w.int('W', t.QueueBy)
	w.int('T', t.EndBy)
	w.str('8', t.FairnessKey)
	w.uint('1', t.Callback)
	if !t.CallbackOf.IsZero() {
		w.field('2')
		w.b = appendBytes(w.b, t.CallbackOf[:])
	}
	w.id('3', t.Run)
	w.str('4', t.Step)
	w.str('5', t.Schedule)
	w.int('6', t.Nominal)
	w.uint('o', uint64(t.FiredBy))
	w.uint('7', uint64(t.Item))
	if t.Extra != nil {
		w.tagged(c, '9', t.Extra)
	}
	return w.end()
}

// appendPolicy appends a Policy.
func (c *codec) appendPolicy(b []byte, p *job.Policy) []byte {
	w := beginRow(b)
	w.policy(c, p)
	return w.end()
}

// policy adds the fields of a Policy.
func (w *rowWriter) policy(c *codec, p *job.Policy) {
	w.uint('p', uint64(p.Priority))
	if p.PriorityOnly() {
		return
	}
	w.str('a', p.App)
	w.str('o', p.Owner)
	w.str('n', string(p.OnDisconnect))
	w.str('X', string(p.OnExhausted))
	w.str('C', p.Compensation)
	w.str('5', p.FairnessKey)
	w.str('4', p.CallbackSecret)
	if p.Timeout != nil {
		w.tagged(c, 't', p.Timeout)
	}
	if p.Grace != nil {
		w.tagged(c, 'g', p.Grace)
	}
	if p.Idempotent != nil {
		w.tagged(c, 'Y', p.Idempotent)
	}
	for _, limit := range [...]struct {
		name byte
		d    *job.Duration
	}{{'Q', p.QueueTimeout}, {'Z', p.TotalTimeout}, {'H', p.HeartbeatTimeout}} {
		if limit.d != nil {
			w.tagged(c, limit.name, limit.d)
		}
	}
	if p.Retry != nil {
		w.tagged(c, 'r', p.Retry)
	}
	if len(p.Selector) > 0 {
		w.tagged(c, 's', p.Selector)
	}
	if p.Route != nil {
		w.tagged(c, 'w', p.Route)
	}
	if len(p.SuccessCodes) > 0 {
		w.tagged(c, 'c', p.SuccessCodes)
	}
	if p.Concurrency != nil {
		w.tagged(c, 'M', p.Concurrency)
	}
	if p.Rate != nil {
		w.tagged(c, 'R', p.Rate)
	}
	w.str('1', p.CallbackURL)
	w.str('2', p.CallbackJob)
	if len(p.CallbackOn) > 0 {
		w.tagged(c, '3', p.CallbackOn)
	}
}

// executor adds the fields of an Executor.
func (w *rowWriter) executor(c *codec, x *job.Executor) {
	if x.Exec != nil {
		w.tagged(c, 'x', x.Exec)
	}
	if x.HTTP != nil {
		w.tagged(c, 'h', x.HTTP)
	}
	w.str('f', x.Handler)
}

// tagged adds a field that is encoded through its tags.
func (w *rowWriter) tagged(c *codec, name byte, v any) {
	w.field(name)
	w.b = append(w.b, mustEncode(c, v)...)
}

// appendBody appends a Body's row.
func (c *codec) appendBody(b []byte, body *Body) []byte {
	w := beginRow(b)
	if body.Executor.Kind() != "" {
		w.field('x')
		x := beginRow(w.b)
		x.executor(c, &body.Executor)
		w.b = x.end()
	}
	w.bytes('p', body.Payload)
	return w.end()
}

// appendAttempt appends an Attempt's row.
func appendAttempt(b []byte, a *Attempt) []byte {
	w := beginRow(b)
	w.uint('n', uint64(a.Number))
	w.str('w', a.Worker)
	w.str('b', a.Boot)
	w.str('a', a.Address)
	w.token('k', a.Token)
	w.uint('v', a.JobVersion)
	w.int('A', a.Assigned)
	w.int('S', a.Started)
	w.int('e', a.Ended)
	w.uint('o', uint64(a.Outcome))
	w.field('r')
	w.b = appendAttemptResult(w.b, &a.Result)
	if len(a.Late) > 0 {
		w.field('L')
		w.b = append(w.b, msgpcode.FixedArrayLow|byte(len(a.Late))) //nolint:gosec // at most maxLate
		for i := range a.Late {
			late := beginRow(w.b)
			late.int('a', a.Late[i].At)
			late.uint('o', uint64(a.Late[i].Outcome))
			late.str('e', a.Late[i].Error)
			w.b = late.end()
		}
	}
	return w.end()
}

func appendAttemptResult(b []byte, r *AttemptResult) []byte {
	w := beginRow(b)
	w.uint('o', uint64(r.Outcome))
	w.intPtr('c', r.ExitCode)
	w.str('e', r.Error)
	w.int('s', r.Started)
	w.int('d', r.Ended)
	w.bytes('O', r.Stdout)
	w.bytes('E', r.Stderr)
	w.bytes('u', r.Output)
	w.int('l', r.LateStart)
	w.str('C', r.Class)
	w.int('r', r.RetryMS)
	return w.end()
}

// metaRow is what the whole state shares.
type metaRow struct {
	ClusterID    string `msgpack:"c,omitempty"`
	FeatureLevel uint32 `msgpack:"f,omitempty"`
	Format       uint32 `msgpack:"F"`
	Applied      uint64 `msgpack:"a"`
	Clock        int64  `msgpack:"t"`
	RestoreEpoch uint32 `msgpack:"e,omitempty"`
	Attested     int64  `msgpack:"w,omitempty"`
}

func appendMeta(b []byte, m *metaRow) []byte {
	w := beginRow(b)
	w.str('c', m.ClusterID)
	w.uint('f', uint64(m.FeatureLevel))
	w.uint('F', uint64(m.Format))
	w.uint('a', m.Applied)
	w.int('t', m.Clock)
	w.uint('e', uint64(m.RestoreEpoch))
	w.int('w', m.Attested)
	return w.end()
}

func appendAlert(b []byte, t *Alert) []byte {
	w := beginRow(b)
	w.str('k', t.Kind)
	w.str('s', t.Subject)
	w.uint('S', uint64(t.State))
	w.str('t', t.Text)
	w.uint('n', t.Count)
	w.int('f', t.First)
	w.int('l', t.Last)
	w.int('c', t.Changed)
	w.str('a', t.Actor)
	return w.end()
}

// activeRow is the value of tableActive.
type activeRow struct {
	Due     int64 // of the task, Unix ms
	Token   job.Token
	Attempt uint32
	Running bool
	Boot    string

	Priority job.Priority
}

func appendActive(b []byte, a activeRow) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(a.Due)) //nolint:gosec // a time after 1970
	b = binary.BigEndian.AppendUint32(b, a.Token.Epoch)
	b = binary.BigEndian.AppendUint64(b, a.Token.Index)
	b = binary.BigEndian.AppendUint32(b, a.Token.Offset)
	b = binary.BigEndian.AppendUint32(b, a.Attempt)
	how := byte(a.Priority) << 1
	if a.Running {
		how |= 1
	}
	return append(append(b, how), a.Boot...)
}

func decodeActive(b []byte) (a activeRow, ok bool) {
	const token, attempt = 8, 8 + tokenLen
	const fixed = attempt + 4 + 1
	if len(b) < fixed {
		return a, false
	}
	return activeRow{
		Due: int64(binary.BigEndian.Uint64(b)), //nolint:gosec // written by appendActive
		Token: job.Token{
			Epoch:  binary.BigEndian.Uint32(b[token:]),
			Index:  binary.BigEndian.Uint64(b[token+4:]),
			Offset: binary.BigEndian.Uint32(b[token+12:]),
		},
		Attempt: binary.BigEndian.Uint32(b[attempt:]),
		Running: b[fixed-1]&1 == 1, Priority: job.Priority(b[fixed-1] >> 1),
		Boot: string(b[fixed:]),
	}, true
}

// keyRow is the value of tableKeys.
type keyRow struct {
	ID     job.ID
	Hash   [16]byte // of the request that claimed the key
	Expiry int64    // Unix ms; live while later than now
}

func appendKeyRow(b []byte, r keyRow) []byte {
	b = append(append(b, r.ID[:]...), r.Hash[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(r.Expiry)) //nolint:gosec // a time after 1970
}

func decodeKeyRow(b []byte) (r keyRow, ok bool) {
	if len(b) != idLen+len(r.Hash)+8 {
		return r, false
	}
	copy(r.ID[:], b)
	copy(r.Hash[:], b[idLen:])
	r.Expiry = int64(binary.BigEndian.Uint64(b[idLen+len(r.Hash):])) //nolint:gosec // written by appendKeyRow
	return r, true
}

// mustEncode encodes a row through its tags. The types of rows can all be encoded.
func mustEncode(c *codec, v any) []byte {
	b, err := c.encode(nil, v)
	if err != nil {
		panic(fmt.Sprintf("fsm: encode %T: %v", v, err))
	}
	return b
}

// mustDecode reads a row that this package wrote.
func mustDecode(c *codec, k key, b []byte, v any) {
	if err := c.decode(b, v); err != nil {
		panic(fmt.Sprintf("fsm: the row of key %x is damaged: %v", []byte(k), err))
	}
}

// damaged panics over a row that can't be read: that is a damaged state, on
// which a server must not go on.
func damaged(k key) { panic(fmt.Sprintf("fsm: the row of key %x is damaged", []byte(k))) }

package fsm

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"

	"github.com/axd-project/axd/job"
)

// Audit tells of one change of a definition or one act by hand: who did what to
// which object, and when. It is written in the very entry that holds the act, and
// only where the act changed something.
type Audit struct {
	ID        job.ID   `msgpack:"i"`
	At        int64    `msgpack:"t"` // Unix ms
	Namespace string   `msgpack:"n,omitempty"`
	Actor     string   `msgpack:"a,omitempty"` // as who sent it calls themselves
	From      string   `msgpack:"f,omitempty"` // the address that it came from
	Verb      string   `msgpack:"v"`           // such as put, delete, cancel
	Kind      string   `msgpack:"k"`           // of the object, such as job, task, worker
	Names     []string `msgpack:"N,omitempty"` // of the object; several: an act on each of them; none: see Detail
	Detail    string   `msgpack:"d,omitempty"` // for people
}

// Act is what a command says of itself for its audit record. Without a verb it is
// none that is recorded.
type Act struct {
	Verb, Kind, Namespace string
	Names                 []string
	Actor                 string // where the command itself carries one
	Detail                string
}

// Acting is a command that people give: what it changes is recorded. Its Result
// says Changed where it changed something.
type Acting interface {
	Command
	Act() Act
}

// By carries an Acting command with who sends it, and from where.
type By struct {
	Actor   string `msgpack:"a,omitempty"`
	From    string `msgpack:"f,omitempty"`
	Command []byte `msgpack:"c"` // EncodeCommand's form
}

// Code implements Command.
func (By) Code() Code { return CodeBy }

// CodeOf is the code of an encoded command, of the one inside where it is a By.
func CodeOf(command []byte) Code {
	var by By
	switch {
	case len(command) == 0:
		return 0
	case Code(command[0]) != CodeBy:
		return Code(command[0])
	case decode(command[1:], &by) != nil || len(by.Command) == 0:
		return CodeBy
	}
	return Code(by.Command[0])
}

// SentBy adds to a command who sends it, where it is one that is recorded.
func SentBy(actor, from string, c Command) (Command, error) {
	if _, ok := c.(Acting); !ok || actor == "" && from == "" {
		return c, nil
	}
	b, err := EncodeCommand(c)
	if err != nil {
		return nil, err
	}
	return By{Actor: actor, From: from, Command: b}, nil
}

// The limits of audit records.
const (
	AuditRetention int64 = 90 * 24 * 3600 * 1000 // ms
	MaxAudit             = 200_000               // records kept; beyond it the oldest go first
	MaxActorBytes        = 256                   // of an actor, and of an address
	maxAuditNames        = MaxDeadIDs            // names of one record; further ones are only counted
)

// Which index of tableAuditBy a row is of.
const (
	auditAll    byte = 'n' // every record
	auditObject byte = 'o' // kind, name
	auditActor  byte = 'a'
	auditVerb   byte = 'v'
	auditKind   byte = 'k'
)

// inverse turns an id's order round: the newest comes first.
func inverse(id job.ID) job.ID {
	for i := range id {
		id[i] = ^id[i]
	}
	return id
}

// auditKeys calls fn with each index row of a record: those under its namespace
// and, with an empty one, those of all namespaces.
func (t *Audit) auditKeys(fn func(key)) {
	scopes := []string{"", t.Namespace}
	if t.Namespace == "" {
		scopes = scopes[:1]
	}
	id := inverse(t.ID)
	for _, ns := range scopes {
		fn(key{}.auditBy(auditAll, ns).id(id))
		fn(key{}.auditBy(auditActor, ns).name(t.Actor).id(id))
		fn(key{}.auditBy(auditVerb, ns).name(t.Verb).id(id))
		fn(key{}.auditBy(auditKind, ns).name(t.Kind).id(id))
		for _, name := range t.Names {
			fn(key{}.auditBy(auditObject, ns).name(t.Kind).name(name).id(id))
		}
	}
}

// rows is how many rows a record takes at most.
func (t *Audit) rows() int { return 1 + 2*(4+len(t.Names)) }

// AuditFilter selects audit records. Empty fields don't filter.
type AuditFilter struct {
	Namespace string // empty: all, and what belongs to none
	Actor     string
	Verb      string
	Kind      string
	Name      string // of an object; needs Kind
	From, To  int64  // at or after, and before; Unix ms; To 0: any time
}

// AuditPage is a page of audit records, the newest first.
type AuditPage struct {
	Records []Audit
	Next    string // empty: the end; a page may be short while it is set
}

// span is the narrowest part of the indexes that holds what the filter selects.
func (f *AuditFilter) span() keyRange {
	p := key{}.auditBy(auditAll, f.Namespace)
	switch {
	case f.Kind != "" && f.Name != "":
		p = key{}.auditBy(auditObject, f.Namespace).name(f.Kind).name(f.Name)
	case f.Actor != "":
		p = key{}.auditBy(auditActor, f.Namespace).name(f.Actor)
	case f.Kind != "":
		p = key{}.auditBy(auditKind, f.Namespace).name(f.Kind)
	case f.Verb != "":
		p = key{}.auditBy(auditVerb, f.Namespace).name(f.Verb)
	}
	span := keyRange{lo: p, hi: prefixEnd(p)}
	if f.To != 0 {
		span.lo = bytes.Clone(p.id(inverse(job.NewID(f.To, 0, 0)))) // newer ones lie before; at To itself none does
	}
	if f.From > 0 {
		span.hi = append(bytes.Clone(p.id(inverse(job.NewID(f.From, 0, 0)))), 0) // included
	}
	return span
}

func (f *AuditFilter) match(t *Audit) bool {
	switch {
	case f.Namespace != "" && t.Namespace != f.Namespace,
		f.Actor != "" && t.Actor != f.Actor,
		f.Verb != "" && t.Verb != f.Verb,
		f.Kind != "" && t.Kind != f.Kind,
		t.At < f.From, f.To != 0 && t.At >= f.To:
		return false
	}
	return true
}

// ListAudit reads a page of audit records, the newest first.
func ListAudit(r Reader, f AuditFilter, cursor string, limit int) (AuditPage, error) {
	limit = pageLimit(limit)
	span, err := f.span().from(cursor)
	if err != nil {
		return AuditPage{}, err
	}
	var p AuditPage
	for left := ScanLimit; ; {
		keys := deadKeys(r, span, min(scanChunk, left+1))
		for _, k := range keys {
			if len(p.Records) == limit || left == 0 {
				return p, nil
			}
			left--
			p.Next = encodeCursor(k)
			if t, ok := GetAudit(r, inverse(job.ID(k[len(k)-idLen:]))); ok && f.match(&t) {
				p.Records = append(p.Records, t)
			}
		}
		if len(keys) == 0 {
			p.Next = ""
			return p, nil
		}
		span.lo = append(bytes.Clone(keys[len(keys)-1]), 0)
	}
}

// GetAudit reads one audit record.
func GetAudit(r Reader, id job.ID) (Audit, bool) { return getRow[Audit](r, key{}.audit(id)) }

// CountAudit is the number of audit records.
func CountAudit(r Reader) int64 { return readCounter(r, key{}.counter(countAudit)) }

// plain makes a text from outside fit to be shown and to be part of a key.
func plain(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	for len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}

// by applies a command with who sent it.
func (a *apply) by(c *By) Result {
	inner, err := decodeCommand(a.codec, c.Command)
	if err != nil {
		return rejected(job.Errorf(job.CodeInvalid, err.Error()))
	}
	if _, ok := inner.(Acting); !ok {
		return rejected(job.Invalid("command", "must be one that people give", strconv.Itoa(int(inner.Code()))))
	}
	a.actor, a.from = c.Actor, c.From
	r := a.command(inner)
	a.actor, a.from = "", ""
	return r
}

// note writes the audit record of a command that changed something.
func (a *apply) note(c Acting, r *Result) {
	act := c.Act()
	if act.Verb == "" {
		return
	}
	if len(r.Attempts) == len(act.Names) { // an act on each of them, which may have been refused
		var done []string
		for i, name := range act.Names {
			if r.Attempts[i] == nil {
				done = append(done, name)
			}
		}
		act.Names = done
	}
	if r.Version != 0 {
		act.Detail = joined("version "+strconv.FormatUint(r.Version, 10), act.Detail)
	}
	if r.Deleted != 0 || r.More {
		act.Detail = joined(act.Detail, strconv.Itoa(r.Deleted)+" done")
		if r.More {
			act.Detail += ", goes on"
		}
	}
	a.audit(act)
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", " + b
}

// audit writes a record. Its id has a numbering of its own, so that it moves no
// other id of the entry.
func (a *apply) audit(act Act) {
	t := Audit{
		ID: job.NewID(a.now, a.at.Index, a.noted), At: a.now, Namespace: act.Namespace,
		Actor: plain(act.Actor, MaxActorBytes), From: plain(a.from, MaxActorBytes), Verb: act.Verb, Kind: act.Kind, Names: act.Names,
		Detail: plain(act.Detail, MaxErrorBytes),
	}
	if t.Actor == "" {
		t.Actor = plain(a.actor, MaxActorBytes)
	}
	if n := len(t.Names); n > maxAuditNames {
		t.Names = t.Names[:maxAuditNames]
		t.Detail = joined(t.Detail, strconv.Itoa(n)+" in all")
	}
	a.noted++
	a.key = a.key.audit(t.ID)
	a.set(a.key, mustEncode(a.codec, &t))
	t.auditKeys(func(k key) { a.set(k, nil) })
	a.addCounter(a.key.counter(countAudit), +1)
}

// expireAudit deletes records that are older than their retention, or more than may
// be kept; the oldest first.
func (a *apply) expireAudit(before int64, budget int, r *Result) int {
	var found []Audit
	a.key = a.key.counter(countAudit)
	over := a.counter(a.key).value - MaxAudit
	most := budget
	a.tx.Ascend(key{tableAudit}, tableEnd(tableAudit), func(k, v []byte) bool {
		id := job.ID(k[1:])
		if id.Time() >= before && int64(len(found)) >= over {
			return false
		}
		var t Audit
		mustDecode(a.codec, k, v, &t)
		if most -= t.rows(); most < 0 {
			r.More = true
			return false
		}
		found = append(found, t)
		return true
	})
	for i := range found {
		t := &found[i]
		a.key = a.key.audit(t.ID)
		a.delete(a.key)
		t.auditKeys(func(k key) { a.delete(k) })
		a.addCounter(a.key.counter(countAudit), -1)
		budget -= t.rows()
		r.Deleted++
	}
	return budget
}

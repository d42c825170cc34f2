package fsm

import (
	"strconv"

	"github.com/axd-project/axd/job"
)

// The limits of secrets.
const (
	MaxSecrets = 1000 // of all namespaces
	maxSealed  = 1024 // bytes of an encrypted value
)

// Secret is a value that the cluster uses and tells nobody. State holds it encrypted
// with a key that only the servers have. Times are Unix milliseconds.
type Secret struct {
	Namespace string `msgpack:"n"`
	Name      string `msgpack:"N"`
	Version   uint64 `msgpack:"v"` // of the value
	Created   int64  `msgpack:"c"`
	Changed   int64  `msgpack:"C"`
	Sealed    []byte `msgpack:"s"`
	Before    []byte `msgpack:"b,omitempty"` // the value before, valid too; none: there is none
}

func (k key) secret(namespace, name string) key {
	return k.table(tableSecrets).name(namespace).name(name)
}

// GetSecret reads one secret.
func GetSecret(r Reader, namespace, name string) (Secret, bool) {
	return getRow[Secret](r, key{}.secret(namespace, name))
}

// ListSecrets reads a namespace's secrets by name; there are at most MaxSecrets.
func ListSecrets(r Reader, namespace string) []Secret {
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	var secrets []Secret
	prefix := key{tableSecrets}.name(namespace)
	r.Ascend(prefix, prefixEnd(prefix), func(k, v []byte) bool {
		var s Secret
		mustDecode(c, k, v, &s)
		secrets = append(secrets, s)
		return true
	})
	return secrets
}

func (a *apply) secret(namespace, name string) (*Secret, bool) {
	a.key = a.key.secret(namespace, name)
	return stored[Secret](a, a.key)
}

func (a *apply) putSecret(c *PutSecret) Result {
	if err := checkNames(c.Namespace, "name", c.Name); err != nil {
		return rejected(err)
	}
	if len(c.Sealed) > maxSealed {
		return rejected(&job.Error{Code: job.CodeInvalid, Field: "value", Rule: "is too large"})
	}
	s := Secret{Namespace: c.Namespace, Name: c.Name, Created: a.now}
	old, known := a.secret(c.Namespace, c.Name)
	switch {
	case known:
		s = *old
	case len(c.Sealed) == 0:
		return rejected(job.NotFound("secret", c.Name))
	case a.secrets() >= MaxSecrets:
		return rejected(job.Conflict("name", "is one too many: there are "+strconv.Itoa(MaxSecrets)+" secrets", c.Name))
	}
	if len(c.Sealed) > 0 {
		s.Before, s.Sealed = s.Sealed, c.Sealed
		s.Version++
	}
	if c.Retire {
		s.Before = nil
	}
	s.Changed = a.now
	a.key = a.key.secret(s.Namespace, s.Name)
	a.set(a.key, mustEncode(a.codec, &s))
	return Result{Version: s.Version, Changed: true}
}

// secrets counts them; there are few.
func (a *apply) secrets() (n int) {
	a.tx.Ascend(key{tableSecrets}, tableEnd(tableSecrets), func(_, _ []byte) bool {
		n++
		return true
	})
	return n
}

func (a *apply) deleteSecret(c *DeleteSecret) Result {
	if _, ok := a.secret(c.Namespace, c.Name); !ok {
		return rejected(job.NotFound("secret", c.Name))
	}
	if err := a.namedBy(namedSecret, c.Namespace, c.Name); err != nil {
		return rejected(err)
	}
	a.key = a.key.secret(c.Namespace, c.Name)
	a.delete(a.key)
	return Result{Changed: true}
}

// hasSecret refuses a policy whose secret is not there: nobody could check what it
// is about to send.
func (a *apply) hasSecret(namespace string, p *job.Policy) *job.Error {
	if p.CallbackURL == "" {
		return nil
	}
	return a.namesSecret(namespace, "callback_secret", p.CallbackSecret)
}

// namesSecret refuses the name of a secret that is not there; empty names none.
func (a *apply) namesSecret(namespace, field, name string) *job.Error {
	if name == "" {
		return nil
	}
	if _, ok := a.secret(namespace, name); !ok {
		return job.Invalid(field, "must name a secret of the namespace; see 'axd secret put'", name)
	}
	return nil
}

func (c *checker) secret(k, v []byte) {
	r := readKey(k)
	namespace, name := r.name(), r.name()
	if s, ok := record[Secret](c, k, v); ok {
		c.want(r.done() && s.Namespace == namespace && s.Name == name && s.Version > 0 && len(s.Sealed) > 0 && len(s.Sealed) <= maxSealed,
			"secret %s/%s: its record is of %s/%s, version %d", namespace, name, s.Namespace, s.Name, s.Version)
	}
}

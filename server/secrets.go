package server

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"strings"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// Secrets are encrypted before they are proposed, so that neither the log, the state
// nor a backup holds one in clear: with AES-256-GCM and the key of a file that all
// servers are given. A sealed value is the key's mark, a nonce, and what GCM makes; it
// is bound to its namespace and name.
const (
	secretKeyBytes = 32
	secretMark     = 8       // bytes that tell keys apart
	mostKeyFile    = 4 << 10 // bytes
	othersMayRead  = 0o077   // of a file's mode
)

// secretBox seals and opens values.
type secretBox struct {
	mark []byte
	aead cipher.AEAD
}

// readSecretKey reads the file of --secret-key-file.
func readSecretKey(path string) (*secretBox, error) {
	const field = "secret-key-file"
	info, err := os.Stat(path)
	if err != nil {
		return nil, job.Invalid(field, "can't be read: "+err.Error(), path)
	}
	if info.Mode().Perm()&othersMayRead != 0 {
		return nil, job.Invalid(field, fmt.Sprintf("can be read by others (mode %04o): set it to 0600", info.Mode().Perm()), path)
	}
	if info.Size() > mostKeyFile {
		return nil, job.Invalid(field, "is too large for a key", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, job.Invalid(field, "can't be read: "+err.Error(), path)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != secretKeyBytes {
		return nil, job.Invalid(field, "must hold 32 bytes in base64, as 'openssl rand -base64 32' makes them", path)
	}
	return newSecretBox(key)
}

func newSecretBox(key []byte) (*secretBox, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("use the secret key: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("use the secret key: %w", err)
	}
	mark := sha256.Sum256(append([]byte("axd secret key\x00"), key...))
	return &secretBox{mark: mark[:secretMark], aead: aead}, nil
}

func boundTo(namespace, name string) []byte { return []byte(namespace + "\x00" + name) }

func (b *secretBox) seal(namespace, name string, value []byte) []byte {
	nonce := make([]byte, b.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return b.aead.Seal(append(bytes.Clone(b.mark), nonce...), nonce, value, boundTo(namespace, name))
}

func (b *secretBox) open(namespace, name string, sealed []byte) ([]byte, error) {
	mark, rest, ok := cutAt(sealed, secretMark)
	nonce, text, whole := cutAt(rest, b.aead.NonceSize())
	switch {
	case !ok || !whole:
		return nil, fmt.Errorf("secret %s is damaged", name)
	case !bytes.Equal(mark, b.mark):
		return nil, fmt.Errorf("secret %s was put with another --secret-key-file than this server has", name)
	}
	value, err := b.aead.Open(nil, nonce, text, boundTo(namespace, name))
	if err != nil {
		return nil, fmt.Errorf("secret %s is damaged: %w", name, err)
	}
	return value, nil
}

func cutAt(b []byte, n int) (before, after []byte, ok bool) {
	if len(b) < n {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// SealSecret implements api.Backend.
func (s *Server) SealSecret(namespace, name string, value []byte) ([]byte, error) {
	if s.secrets == nil {
		return nil, job.Errorf(job.CodeUnsupported, "this server has no --secret-key-file, which secrets are encrypted with; give all servers the same")
	}
	return s.secrets.seal(namespace, name, value), nil
}

// signingKeys are the values of a secret, the newest first; without a name none.
func (s *Server) signingKeys(v fsm.Reader, namespace, name string) ([][]byte, error) {
	if name == "" {
		return nil, nil
	}
	secret, ok := fsm.GetSecret(v, namespace, name)
	switch {
	case !ok:
		return nil, fmt.Errorf("not sent: there is no secret %s to sign it with", name)
	case s.secrets == nil:
		return nil, fmt.Errorf("not sent: server %s has no --secret-key-file to sign it", s.cfg.Name)
	}
	var keys [][]byte
	for _, sealed := range [][]byte{secret.Sealed, secret.Before} {
		if len(sealed) == 0 {
			continue
		}
		k, err := s.secrets.open(namespace, name, sealed)
		if err != nil {
			return nil, fmt.Errorf("not sent: %w", err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

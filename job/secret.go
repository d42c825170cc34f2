package job

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// The limits of a secret.
const (
	MinSecret    = 16  // bytes of its key
	MaxSecret    = 256 // ditto
	secretPrefix = "whsec_"
)

// SecretKey reads a secret's value: the key that it stands for. One that begins with
// whsec_ is base64, as https://www.standardwebhooks.com has it; any other stands for its
// own bytes. The error does not repeat the value.
func SecretKey(value string) ([]byte, *Error) {
	key := []byte(value)
	if text, ok := strings.CutPrefix(value, secretPrefix); ok {
		var err error
		if key, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, &Error{Code: CodeInvalid, Field: "value", Rule: "must be base64 behind " + secretPrefix}
		}
	}
	if len(key) < MinSecret || len(key) > MaxSecret {
		return nil, &Error{Code: CodeInvalid, Field: "value", Rule: "must stand for " + strconv.Itoa(MinSecret) + " to " +
			strconv.Itoa(MaxSecret) + " bytes; this one for " + strconv.Itoa(len(key))}
	}
	return key, nil
}

package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
)

// The headers of a delivery, as https://www.standardwebhooks.com has them.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp" // Unix seconds, of this try
	HeaderSignature = "Webhook-Signature"
)

// Sign returns the signature of a delivery: HMAC-SHA256 over id, timestamp and body,
// one for each key, so that a receiver may hold either while a secret is changed.
func Sign(keys [][]byte, id string, timestamp int64, body []byte) string {
	signatures := make([]string, len(keys))
	for i, k := range keys {
		mac := hmac.New(sha256.New, k)
		mac.Write([]byte(id + "." + strconv.FormatInt(timestamp, 10) + "."))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}

package fsm

import (
	"fmt"
	"strings"
)

func (e *scriptEnv) secretCommand(verb string, f fields) (Command, bool) {
	switch verb {
	case "put-secret":
		return PutSecret{Namespace: f.ns(), Name: f["name"], Sealed: []byte(f["sealed"]), Retire: f["retire"] != ""}, true
	case "delete-secret":
		return DeleteSecret{Namespace: f.ns(), Name: f["name"]}, true
	}
	return nil, false
}

func (e *scriptEnv) showSecrets(b *strings.Builder, f fields) {
	for _, s := range ListSecrets(e.tx, f.ns()) {
		fmt.Fprintf(b, "%s version %d: %s, before %q, created %s, changed %s\n", s.Name, s.Version, s.Sealed, s.Before, e.at(s.Created), e.at(s.Changed))
	}
}

package fsm

import (
	"fmt"
	"strings"
)

func (e *scriptEnv) showAlerts(b *strings.Builder, f fields) {
	state, _ := ParseAlertState(f["state"])
	if f["state"] == "" {
		state = 0
	}
	for _, t := range ListAlerts(e.tx, state) {
		fmt.Fprintf(b, "%s/%s %s %d times, first %s last %s changed %s", t.Kind, t.Subject, t.State, t.Count,
			e.at(t.First), e.at(t.Last), e.at(t.Changed))
		if t.Actor != "" {
			fmt.Fprintf(b, " by %s", t.Actor)
		}
		fmt.Fprintf(b, ": %s\n", t.Text)
	}
}

func (e *scriptEnv) describeAlert(k []byte) (string, bool) {
	r := readKey(k)
	switch k[0] {
	case tableAlerts:
		return fmt.Sprintf("alert %s/%s", r.name(), r.name()), true
	case tableAlertAge:
		return fmt.Sprintf("alert-age %s %s/%s", e.at(r.time()), r.name(), r.name()), true
	}
	return "", false
}

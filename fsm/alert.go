package fsm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The kinds of alert. Those that are conditions are resolved by whoever raised
// them; those that are events stay open until somebody acknowledges them.
const (
	AlertClockSkew   = "clock_skew"   // condition: a server's wall clock differs from the others'
	AlertClockAbsurd = "clock_absurd" // condition: a server's wall clock can't be right
	AlertClockStep   = "clock_step"   // event: a wall clock jumped, or the cluster's clock was corrected at once
	AlertSuspend     = "suspend"      // event: a server's machine was suspended
	AlertDiskLow     = "disk_low"     // condition: little of a server's disk is free
	AlertDiverged    = "diverged"     // event: two servers hold different states
	// See AlertUnfired too.
)

// AlertState is how far an alert has come.
type AlertState uint8

// The states of an alert.
const (
	AlertOpen         AlertState = 1
	AlertAcknowledged AlertState = 2 // somebody has seen it
	AlertResolved     AlertState = 3 // its cause is gone
)

var alertStates = []string{AlertOpen: "open", AlertAcknowledged: "acknowledged", AlertResolved: "resolved"}

// String gives the state's name in the API.
func (s AlertState) String() string {
	if s < AlertOpen || s > AlertResolved {
		return fmt.Sprintf("AlertState(%d)", uint8(s))
	}
	return alertStates[s]
}

// ParseAlertState reads what String gives.
func ParseAlertState(s string) (AlertState, bool) {
	i := slices.Index(alertStates[AlertOpen:], s)
	return AlertState(i) + AlertOpen, i >= 0 //nolint:gosec // an index of three
}

// Alert is something that people should know. Raised again it counts up. Times
// are Unix milliseconds by the cluster's clock.
type Alert struct {
	Kind    string     `msgpack:"k"`
	Subject string     `msgpack:"s"`
	State   AlertState `msgpack:"S"`
	Text    string     `msgpack:"t,omitempty"`
	Count   uint64     `msgpack:"n"` // times it was raised
	First   int64      `msgpack:"f"` // raised first
	Last    int64      `msgpack:"l"` // raised last
	Changed int64      `msgpack:"c"`
	Actor   string     `msgpack:"a,omitempty"` // who acknowledged it
}

// The limits of alerts.
const (
	maxAlerts            = MaxPage               // one more pushes out the one that changed first
	AlertRetention int64 = 30 * 24 * 3600 * 1000 // ms after the last change
)

// GetAlert reads one alert.
func GetAlert(r Reader, kind, subject string) (Alert, bool) {
	return getRow[Alert](r, key{}.alert(kind, subject))
}

// ListAlerts reads all alerts of a state, 0 means every one, the latest change
// first. There are at most MaxPage.
func ListAlerts(r Reader, state AlertState) []Alert {
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	var alerts []Alert
	r.Ascend(key{tableAlerts}, tableEnd(tableAlerts), func(k, v []byte) bool {
		var a Alert
		mustDecode(c, k, v, &a)
		if state == 0 || a.State == state {
			alerts = append(alerts, a)
		}
		return true
	})
	slices.SortFunc(alerts, func(a, b Alert) int {
		return cmp.Or(cmp.Compare(b.Changed, a.Changed), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Subject, b.Subject))
	})
	return alerts
}

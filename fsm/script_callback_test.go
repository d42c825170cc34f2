package fsm

import (
	"fmt"
	"strings"
)

func (e *scriptEnv) callbackCommand(verb string, f fields) (Command, bool) {
	ref := e.callbackRef(f)
	switch verb {
	case "tried":
		c, _ := GetCallback(e.tx, ref)
		version := c.Version
		if f["version"] != "" {
			version = uint64(f.number("version"))
		}
		return CallbackTried{
			Term: e.termOf(f), Ref: ref, Version: version, OK: f["ok"] != "", Status: int(f.number("status")), Error: f["error"],
		}, true
	case "redeliver":
		return Redeliver{Ref: ref}, true
	}
	return nil, false
}

// callbackRef reads task=t1 as its newest callback, unless the line has a number.
func (e *scriptEnv) callbackRef(f fields) CallbackRef {
	ref := CallbackRef{Task: e.ref(f), N: uint64(f.number("n"))}
	if list := TaskCallbacks(e.tx, ref.Task); ref.N == 0 && len(list) > 0 {
		ref.N = list[len(list)-1].N
	}
	return ref
}

func (e *scriptEnv) showCallbacks(b *strings.Builder, cmd string, f fields) {
	switch cmd {
	case "callback-body":
		c, ok := GetCallback(e.tx, e.callbackRef(f))
		if ok {
			fmt.Fprintln(b, e.nameIDs(string(CallbackBody(e.tx, &c))))
		}
	case "due-callbacks":
		for _, t := range CallbackTargets(e.tx, f["after"], 100) {
			list, next := DueCallbacks(e.tx, t.Name, e.now, int(fields{"limit": f.or("limit", "10")}.number("limit")))
			fmt.Fprintf(b, "%s from %s:", t.Name, e.at(t.Due))
			for i := range list {
				fmt.Fprintf(b, " %s", e.nameIDs(list[i].Ref().String()))
			}
			if next != 0 {
				fmt.Fprintf(b, ", next %s", e.at(next))
			}
			fmt.Fprintln(b)
		}
	default:
		state, _ := ParseCallbackState(f["state"])
		if f["state"] == "" {
			state = 0
		}
		list, next, err := ListCallbacks(e.tx, f.ns(), state, e.cursor(f), int(f.number("limit")))
		for i := range list {
			e.showCallback(b, &list[i])
		}
		e.showNext(b, next, err)
	}
}

func (e *scriptEnv) showCallback(b *strings.Builder, c *Callback) {
	fmt.Fprintf(b, "%s %s of %s", e.nameIDs(c.Ref().String()), c.State, c.End.State)
	add := func(show bool, format string, args ...any) {
		if show {
			fmt.Fprintf(b, " "+format, args...)
		}
	}
	add(c.URL != "", "to %s", c.URL)
	add(c.Job != "", "job %s", c.Job)
	add(c.Secret != "", "signed with %s", c.Secret)
	if !c.Started.IsZero() {
		fmt.Fprintf(b, " started %s", e.name(c.Started))
	}
	add(c.Due != 0, "due %s", e.at(c.Due))
	add(c.Settled != 0, "settled %s", e.at(c.Settled))
	add(c.Tries != 0, "tries %d", c.Tries)
	add(c.Status != 0, "status %d", c.Status)
	add(c.Error != "", "error %q", c.Error)
	fmt.Fprintln(b)
}

func (e *scriptEnv) describeCallback(k []byte) (string, bool) {
	r := readKey(k)
	id := func(ref CallbackRef) string { return ref.Task.Namespace + "/" + e.nameIDs(ref.String()) }
	switch k[0] {
	case tableCallbacks:
		return "callback " + id(CallbackRef{r.ref(), r.u64()}), true
	case tableCallbackDue:
		return fmt.Sprintf("callback-due %s %s %s", r.name(), e.at(r.time()), id(r.callbackRest())), true
	case tableCallbackState:
		ns, state := r.name(), CallbackState(r.u8())
		return fmt.Sprintf("callback-state %s %s", state, id(CallbackRef{TaskRef{ns, r.id()}, r.u64()})), true
	case tableCallbackAge:
		return fmt.Sprintf("callback-age %s %s", e.at(r.time()), id(r.callbackRest())), true
	}
	return "", false
}

package job

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// The kinds of executor, as Executor.Kind names them.
const (
	KindExec    = "exec"
	KindHTTP    = "http"
	KindHandler = "handler"
)

const (
	maxMethod  = 32   // bytes
	maxCPU     = 4096 // cores
	envPrefix  = "AXD_"
	envRule    = "each name must match [A-Za-z_][A-Za-z0-9_]*"
	headerRule = "each name must be an HTTP token"
	nulRule    = "must not hold a NUL byte"
)

// Validate checks an executor: exactly one kind, and that kind's rules. parent
// is the path of the object that holds it, empty at the top.
func (e Executor) Validate(parent string) *Error {
	err := e.validate()
	if err != nil && parent != "" {
		return err.At(parent)
	}
	return err
}

func (e Executor) validate() *Error {
	given := 0
	for _, is := range []bool{e.Exec != nil, e.HTTP != nil, e.Handler != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return invalidNumber(KindExec, "exactly one of exec, http and handler must be given", given)
	}
	if n := e.size(); n > MaxSpecBytes {
		return tooLarge(e.Kind(), MaxSpecBytes, n)
	}
	switch {
	case e.Exec != nil:
		return e.Exec.validate()
	case e.HTTP != nil:
		return e.HTTP.validate()
	}
	return ValidateName(KindHandler, e.Handler)
}

// size bounds the encoded size from above: of each string its bytes and the
// five that msgpack needs at most to announce it.
func (e Executor) size() int {
	const each = 5
	n := len(e.Handler)
	pairs := func(m map[string]string) {
		for k, v := range m {
			n += len(k) + len(v) + 2*each
		}
	}
	if x := e.Exec; x != nil {
		for _, arg := range x.Command {
			n += len(arg) + each
		}
		pairs(x.Env)
		n += len(x.Dir) + len(x.User) + len(x.Stdin)
	}
	if h := e.HTTP; h != nil {
		pairs(h.Headers)
		n += len(h.Method) + len(h.URL) + len(h.Body)
	}
	return n
}

func (x *Exec) validate() *Error {
	if len(x.Command) == 0 {
		return &Error{Code: CodeInvalid, Field: "exec.command", Rule: "must hold the program and its arguments"}
	}
	if x.Command[0] == "" {
		return &Error{Code: CodeInvalid, Field: "exec.command[0]", Rule: "must name the program"}
	}
	for i, arg := range x.Command {
		if hasNUL(arg) {
			return Invalid(fmt.Sprintf("exec.command[%d]", i), nulRule, arg)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(x.Env)) {
		switch {
		case !isEnvName(name):
			return Invalid("exec.env", envRule, name)
		case strings.HasPrefix(name, envPrefix):
			return Invalid("exec.env", "names that begin with AXD_ are set by the worker", name)
		case hasNUL(x.Env[name]):
			// The value is not repeated: it may be a secret.
			return &Error{Code: CodeInvalid, Field: at("exec.env", name), Rule: nulRule}
		}
	}
	switch {
	case hasNUL(x.Dir):
		return Invalid("exec.dir", nulRule, x.Dir)
	case x.Dir != "" && !path.IsAbs(x.Dir):
		return Invalid("exec.dir", "must be an absolute path", x.Dir)
	}
	if e := validateText("exec.user", x.User, MaxName, ""); e != nil {
		return e
	}
	return x.Limits.validate()
}

func (l Limits) validate() *Error {
	if !(l.CPU >= 0 && l.CPU <= maxCPU) { // NaN fails as well
		return invalidFloat("exec.limits.cpu", "must be 0 (no limit) to 4096 cores", l.CPU)
	}
	if l.Memory != 0 && l.Memory < MinMemory {
		return invalidNumber("exec.limits.memory", "must be at least 65536 bytes (64 KiB), or 0: no limit; no command runs in less", l.Memory)
	}
	return nil
}

func (h *HTTP) validate() *Error {
	if h.Method != "" && (!isToken(h.Method) || len(h.Method) > maxMethod) {
		return Invalid("http.method", "must be an HTTP method", h.Method)
	}
	if e := validateURL("http.url", h.URL); e != nil {
		return e
	}
	seen := make(map[string]string, len(h.Headers))
	for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
		lower := strings.ToLower(name)
		switch {
		case !isToken(name):
			return Invalid("http.headers", headerRule, name)
		case seen[lower] != "":
			return Invalid("http.headers", "must not name "+seen[lower]+" twice", name)
		case lower == "content-length" || lower == "transfer-encoding" || lower == "trailer":
			return Invalid("http.headers", "must not frame the message: the worker does", name)
		case !isHeaderValue(h.Headers[name]):
			// The value is not repeated: it may be a secret.
			return &Error{Code: CodeInvalid, Field: at("http.headers", name), Rule: "must not hold CR, LF or other control characters"}
		}
		seen[lower] = name
	}
	return nil
}

func validateURL(field, raw string) *Error {
	const rule = `must be an absolute http or https URL with a host`
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return Invalid(field, rule, raw)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return Invalid(field, "must have a port of 1 to 65535", raw)
		}
	}
	return nil
}

func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }

func isEnvName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && !isAlphanumeric(c) || i == 0 && c >= '0' && c <= '9' {
			return false
		}
	}
	return s != ""
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// isHeaderValue reports whether s may be a field value of RFC 9110, section 5.5.
func isHeaderValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

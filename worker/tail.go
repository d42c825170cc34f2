package worker

// tail keeps the last bytes written to it.
type tail struct {
	limit int
	data  []byte
	total int64
}

func newTail(limit int) tail { return tail{limit: limit} }

// add appends. The buffer grows to twice its limit before it is moved, so that
// small writes don't copy it each time.
func (t *tail) add(b []byte) {
	t.total += int64(len(b))
	if len(b) >= t.limit {
		t.data = append(t.data[:0], b[len(b)-t.limit:]...)
		return
	}
	if len(t.data)+len(b) > 2*t.limit {
		keep := t.limit - len(b)
		t.data = append(t.data[:0], t.data[len(t.data)-keep:]...)
	}
	t.data = append(t.data, b...)
}

// bytes returns a copy of the last bytes, at most the limit.
func (t *tail) bytes() []byte {
	b := t.data
	if len(b) > t.limit {
		b = b[len(b)-t.limit:]
	}
	return append([]byte(nil), b...)
}

// skipped counts the bytes that came before what bytes returns.
func (t *tail) skipped() int64 { return t.total - int64(min(len(t.data), t.limit)) }

// shorten cuts a text to at most limit bytes, never inside a UTF-8 sequence.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const mark = "…"
	cut := limit - len(mark)
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + mark
}

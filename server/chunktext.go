package server

import (
	"strings"
	"unicode/utf8"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/rpc"
)

// chunkText makes text of an attempt's output. A character that a chunk's end
// cuts in two is held back until the next chunk of its stream brings the rest.
type chunkText struct {
	send func(client.LogChunk) error
	held [2][]byte // of stdout and stderr
}

var streamNames = [2]string{"stdout", "stderr"}

func (c *chunkText) output(out rpc.Output) error {
	stream := 0
	if out.Stderr {
		stream = 1
	}
	held := c.held[stream]
	if out.Skipped > 0 && len(held) > 0 { // its rest is among the skipped
		held = []byte("\uFFFD")
	}
	data := append(held, out.Data...)
	whole := len(data) - cutRune(data)
	c.held[stream] = append([]byte(nil), data[whole:]...)
	if whole == 0 && out.Skipped == 0 {
		return nil
	}
	return c.send(client.LogChunk{
		Stream: streamNames[stream], Data: strings.ToValidUTF8(string(data[:whole]), "\uFFFD"), Skipped: out.Skipped,
	})
}

// end sends what is held back: the output ended inside a character.
func (c *chunkText) end() error {
	for stream, rest := range c.held {
		if len(rest) == 0 {
			continue
		}
		if err := c.send(client.LogChunk{Stream: streamNames[stream], Data: "\uFFFD"}); err != nil {
			return err
		}
	}
	return nil
}

// cutRune returns how many bytes at the end of b are the beginning of a character.
func cutRune(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		tail := b[len(b)-n:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

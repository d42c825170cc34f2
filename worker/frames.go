package worker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/vmihailenco/msgpack/v5"
)

// Worker and supervisor speak over two pipes: each frame is four bytes of
// length, big endian, and one message as msgpack with exactly one field set.
const maxFrame = 1 << 20 // bytes; the largest holds an executor's environment and stdin (job.MaxSpecBytes)

// order is what the worker tells the supervisor.
type order struct {
	Start  *startOrder  `msgpack:"s,omitempty"`
	Kill   *killOrder   `msgpack:"k,omitempty"`
	Renew  *renewOrder  `msgpack:"r,omitempty"`
	Follow *followOrder `msgpack:"f,omitempty"`
	Took   *tookOrder   `msgpack:"t,omitempty"`
	Settle *settleOrder `msgpack:"d,omitempty"`
	End    bool         `msgpack:"e,omitempty"` // the worker stops: all that runs is to be killed
}

// startOrder starts a command. Seq numbers commands within one supervisor's life.
type startOrder struct {
	Seq      uint64      `msgpack:"q"`
	Argv     []string    `msgpack:"a"`
	Env      []string    `msgpack:"e"`
	Dir      string      `msgpack:"d"`
	Stdin    []byte      `msgpack:"i,omitempty"`
	Mark     string      `msgpack:"m"` // the environment entry that marks the attempt's processes
	Identity *identity   `msgpack:"u,omitempty"`
	Limits   startLimits `msgpack:"l"`
	Timeout  int64       `msgpack:"t,omitempty"` // ns; 0: none
	Pulse    int64       `msgpack:"p,omitempty"` // ns that it may be silent; 0: it need not beat
	Grace    int64       `msgpack:"g,omitempty"` // ns from TERM to KILL
	Continue bool        `msgpack:"c,omitempty"` // survives the lease's end

	Generation uint64 `msgpack:"n,omitempty"` // follows output since the start; see followOrder
}

type startLimits struct {
	CPU    float64 `msgpack:"c,omitempty"` // cores
	Memory int64   `msgpack:"m,omitempty"` // bytes
}

// identity is the user that a command runs as.
type identity struct {
	UID    uint32   `msgpack:"u"`
	GID    uint32   `msgpack:"g"`
	Groups []uint32 `msgpack:"s,omitempty"`
	Name   string   `msgpack:"n,omitempty"`
	Home   string   `msgpack:"h,omitempty"`
}

type killOrder struct {
	Seq    uint64     `msgpack:"q"`
	Reason stopReason `msgpack:"r"`
	Hurry  bool       `msgpack:"h,omitempty"` // KILL comes soon, whatever the grace
}

// renewOrder moves the lease's end. Times are nanoseconds of CLOCK_BOOTTIME,
// which both processes share.
type renewOrder struct {
	Until int64 `msgpack:"u"`
	TTL   int64 `msgpack:"t"`
}

// followOrder asks for a command's output as it comes. Generation 0 ends it;
// one that is new begins with the tail so far, and its chunks carry the generation.
type followOrder struct {
	Seq        uint64 `msgpack:"q"`
	Generation uint64 `msgpack:"g,omitempty"`
	Wait       bool   `msgpack:"w,omitempty"` // the command waits while too much is not taken
}

// tookOrder tells what the worker needs no room for any more: the cost of the
// chunks of stdout and stderr since the generation began.
type tookOrder struct {
	Seq        uint64   `msgpack:"q"`
	Generation uint64   `msgpack:"g"`
	Taken      [2]int64 `msgpack:"t"`
}

// settleOrder tells that nobody wants to hear of a command any more: its result is
// safe, or it is not wanted, in which case it is killed.
type settleOrder struct {
	Seq uint64 `msgpack:"q"`
}

// report is what the supervisor tells the worker.
type report struct {
	Started *startedReport `msgpack:"s,omitempty"`
	Chunk   *chunkReport   `msgpack:"c,omitempty"`
	Exited  *exitedReport  `msgpack:"x,omitempty"`
	Alive   bool           `msgpack:"a,omitempty"` // answers a renewOrder
	Held    *heldReport    `msgpack:"h,omitempty"` // the first, to a worker's next life
}

// heldVersion is of the frames between worker and supervisor: a worker adopts
// nothing of a supervisor that speaks otherwise.
const heldVersion = 1

// heldReport tells a worker's next life which commands have outlived the one before.
type heldReport struct {
	Version  int           `msgpack:"v"`
	Commands []heldCommand `msgpack:"c,omitempty"`
	More     bool          `msgpack:"m,omitempty"` // another one follows
}

const heldMost = 256 // commands in one report: far below maxFrame

// heldCommand is a command that goes on, or has ended and is yet to be told of.
type heldCommand struct {
	Seq     uint64  `msgpack:"q"`
	Mark    string  `msgpack:"m"`
	Process process `msgpack:"p"`
	Started int64   `msgpack:"s,omitempty"` // ns, CLOCK_BOOTTIME; 0: not yet
}

type startedReport struct {
	Seq     uint64  `msgpack:"q"`
	Process process `msgpack:"p"`
	At      int64   `msgpack:"a"`           // ns, CLOCK_BOOTTIME
	Note    string  `msgpack:"n,omitempty"` // a limit that the system does not allow
}

type chunkReport struct {
	Seq        uint64 `msgpack:"q"`
	Generation uint64 `msgpack:"g"`
	Stderr     bool   `msgpack:"e,omitempty"`
	Data       []byte `msgpack:"d"`
	Skipped    int64  `msgpack:"s,omitempty"`
}

type exitedReport struct {
	Seq     uint64     `msgpack:"q"`
	Refused string     `msgpack:"f,omitempty"` // never started: why
	Code    int        `msgpack:"c"`           // exit code, or 128 + signal
	Signal  string     `msgpack:"g,omitempty"`
	Error   string     `msgpack:"r,omitempty"` // could not run, or left something behind
	Reason  stopReason `msgpack:"y,omitempty"` // why the supervisor ended it
	Started int64      `msgpack:"s,omitempty"` // ns, CLOCK_BOOTTIME; 0: never ran
	Ended   int64      `msgpack:"e,omitempty"`
	Stdout  []byte     `msgpack:"o,omitempty"`
	Stderr  []byte     `msgpack:"t,omitempty"`
}

// writeFrame writes one message and flushes.
func writeFrame(w *bufio.Writer, message any) error {
	b, err := msgpack.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode frame: %w", err)
	}
	if len(b) > maxFrame {
		return fmt.Errorf("frame of %d bytes is over the limit of %d", len(b), maxFrame)
	}
	var head [4]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(b))) //nolint:gosec // at most maxFrame
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	return w.Flush()
}

// readFrame reads one message.
func readFrame(r *bufio.Reader, into any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxFrame {
		return fmt.Errorf("frame of %d bytes is over the limit of %d", size, maxFrame)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	if err := msgpack.Unmarshal(b, into); err != nil {
		return fmt.Errorf("decode frame: %w", err)
	}
	return nil
}

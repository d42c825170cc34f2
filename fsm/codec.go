package fsm

// EncodeCommand encodes a command with its code: what Propose takes and an
// Entry holds.
func EncodeCommand(c Command) ([]byte, error) { panic("to be written") }

// DecodeCommand reads what EncodeCommand wrote. An unknown code is an error.
func DecodeCommand(b []byte) (Command, error) { panic("to be written") }

// EncodeEntry encodes an entry.
func EncodeEntry(e Entry) ([]byte, error) { panic("to be written") }

// DecodeEntry reads what EncodeEntry wrote.
func DecodeEntry(b []byte) (Entry, error) { panic("to be written") }

// EncodeResult and DecodeResult carry a result to the server that forwarded
// the command.
func EncodeResult(r Result) ([]byte, error) { panic("to be written") }

// DecodeResult reads what EncodeResult wrote.
func DecodeResult(b []byte) (Result, error) { panic("to be written") }

package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// A snapshot travels as a tar whose every byte follows from its manifest and
// its files: manifest first, files in order of their names, a checksum of the
// manifest last. So its length is known without building it, and a receiver
// needs no tar reader: it compares what arrives with what must arrive.

const (
	streamVersion  = 1
	manifestName   = "meta.json"
	stateDir       = "state"
	checksumName   = "checksum"
	maxManifestLen = 8 << 20   // bytes
	maxFiles       = 50_000    // of one snapshot
	maxFileLen     = 1<<33 - 1 // bytes: what the octal size of a tar header holds
	tarBlock       = 512       // bytes
)

// fileName allows the names that a Pebble checkpoint consists of. It holds an
// empty log file even while the log is off.
var fileName = regexp.MustCompile(`^([0-9]{6,12}\.(sst|log)|(MANIFEST|OPTIONS)-[0-9]{6,12}|marker\.(format-version|manifest)\.[0-9]{6}\.[A-Z0-9-]{1,32})$`)

var fileSum = regexp.MustCompile(`^[0-9a-f]{16}$`)

// manifest describes a snapshot's content.
type manifest struct {
	Version int        `json:"version"`
	Index   uint64     `json:"index"`
	Term    uint64     `json:"term"`
	Applied uint64     `json:"applied"`
	Created int64      `json:"created,omitempty"` // Unix ms; of an archive
	Files   []fileMeta `json:"files"`             // in order of their names
}

type fileMeta struct {
	Name string `json:"name"`
	Size int64  `json:"size"` // bytes
	Sum  string `json:"sum"`  // XXH64, 16 hex digits
}

// check refuses what no axd wrote: a manifest may come from the network.
func (m *manifest) check() error {
	if m.Version != streamVersion {
		return fmt.Errorf("snapshot has format %d, this build reads %d", m.Version, streamVersion)
	}
	if len(m.Files) > maxFiles {
		return fmt.Errorf("snapshot has %d files, more than %d", len(m.Files), maxFiles)
	}
	for i, f := range m.Files {
		switch {
		case !fileName.MatchString(f.Name):
			return fmt.Errorf("snapshot has an unexpected file %.64q", f.Name)
		case i > 0 && f.Name <= m.Files[i-1].Name:
			return fmt.Errorf("snapshot names file %s out of order", f.Name)
		case f.Size < 0 || f.Size > maxFileLen:
			return fmt.Errorf("snapshot file %s has impossible size %d", f.Name, f.Size)
		case !fileSum.MatchString(f.Sum):
			return fmt.Errorf("snapshot file %s has no checksum", f.Name)
		}
	}
	return nil
}

// bytes is the size of the files.
func (m *manifest) bytes() int64 {
	var n int64
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// segment is a piece of the stream: given bytes, or a file's content.
type segment struct {
	literal []byte
	file    *fileMeta
}

func (s segment) size() int64 {
	if s.file != nil {
		return s.file.Size
	}
	return int64(len(s.literal))
}

// layout lists the stream's pieces; head is the manifest, encoded. The first
// piece is the manifest's entry.
func layout(head []byte, files []fileMeta) []segment {
	segs := []segment{{literal: tarEntry(manifestName, head)}}
	for i := range files {
		f := &files[i]
		segs = append(segs, segment{literal: tarHeader(stateDir+"/"+f.Name, f.Size)}, segment{file: f})
		if pad := tarPadding(f.Size); pad > 0 {
			segs = append(segs, segment{literal: make([]byte, pad)})
		}
	}
	end := tarEntry(checksumName, []byte(sumHex(xxhash.Sum64(head))+"\n"))
	return append(segs, segment{literal: append(end, make([]byte, 2*tarBlock)...)})
}

func layoutSize(segs []segment) int64 {
	var n int64
	for _, s := range segs {
		n += s.size()
	}
	return n
}

func (m *manifest) encode() ([]byte, error) {
	head, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(head) > maxManifestLen {
		return nil, fmt.Errorf("snapshot manifest of %d bytes is over %d", len(head), maxManifestLen)
	}
	return head, nil
}

func sumHex(sum uint64) string { return fmt.Sprintf("%016x", sum) }

// tarHeader writes a ustar header. It is our own because both ends must write
// the same bytes, whatever their versions.
func tarHeader(name string, size int64) []byte {
	h := make([]byte, tarBlock)
	copy(h[0:100], name)
	copy(h[100:], "0000600\x000000000\x000000000\x00") // mode, uid, gid
	copy(h[124:], fmt.Sprintf("%011o\x00", size))
	copy(h[136:], "00000000000\x00") // time
	copy(h[148:], "        ")        // the checksum counts as spaces
	h[156] = '0'                     // a regular file
	copy(h[257:], "ustar\x0000")
	copy(h[329:], "0000000\x000000000\x00") // device
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return h
}

func tarPadding(size int64) int64 { return -size & (tarBlock - 1) }

func tarEntry(name string, body []byte) []byte {
	e := append(tarHeader(name, int64(len(body))), body...)
	return append(e, make([]byte, tarPadding(int64(len(body))))...)
}

// errNotSnapshot is the answer to bytes that don't begin as a snapshot does.
var errNotSnapshot = errors.New("not an axd snapshot")

// receiver takes a stream in pieces of any size and hands the files' content
// on. Its first error is final.
type receiver struct {
	// begin is called once with the checked manifest, before any file.
	begin func(m *manifest) error
	// create opens a file's destination; Close must make it durable.
	create func(name string) (io.WriteCloser, error)

	manifest manifest
	head     []byte // the manifest's entry, until it is whole
	segs     []segment
	at       int   // index of the current piece
	off      int64 // bytes of it that have arrived
	sum      *xxhash.Digest
	out      io.WriteCloser // the current file
	scratch  []byte
	total    int64
	err      error
}

// Write takes the next bytes of the stream.
func (r *receiver) Write(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n := 0
	for n < len(p) {
		took, err := r.take(p[n:])
		n += took
		r.total += int64(took)
		if err != nil {
			r.abort()
			r.err = err
			return n, err
		}
	}
	return n, nil
}

// finish reports whether the stream arrived whole.
func (r *receiver) finish() error {
	r.abort()
	switch {
	case r.err != nil:
		return r.err
	case r.total == 0:
		r.err = errors.New("snapshot stream is empty")
	case r.segs == nil:
		r.err = fmt.Errorf("snapshot stream ends inside the manifest, after %d bytes", r.total)
	case r.at < len(r.segs):
		r.err = fmt.Errorf("snapshot stream is truncated: %d of %d bytes", r.total, layoutSize(r.segs))
	}
	return r.err
}

// abort closes a file that is half there.
func (r *receiver) abort() {
	if r.out != nil {
		r.out.Close() // the error of a file that is thrown away says nothing
		r.out = nil
	}
}

func (r *receiver) take(p []byte) (int, error) {
	if r.segs == nil {
		return r.takeHead(p)
	}
	if r.at == len(r.segs) {
		return 0, errors.New("snapshot stream goes on after its end")
	}
	seg := r.segs[r.at]
	p = p[:min(int64(len(p)), seg.size()-r.off)]
	var err error
	if seg.file != nil {
		err = r.takeFile(p)
	} else if want := seg.literal[r.off:][:len(p)]; !bytes.Equal(p, want) {
		err = fmt.Errorf("snapshot stream is damaged near byte %d", r.total)
	}
	if err != nil {
		return 0, err
	}
	r.off += int64(len(p))
	return len(p), r.advance()
}

// takeHead gathers the manifest's entry: a header, then as much as it says.
func (r *receiver) takeHead(p []byte) (int, error) {
	want := tarBlock
	if len(r.head) >= tarBlock {
		size, err := headSize(r.head)
		if err != nil {
			return 0, err
		}
		want += int(size + tarPadding(size))
	}
	p = p[:min(len(p), want-len(r.head))]
	r.head = append(r.head, p...)
	if len(r.head) < want {
		return len(p), nil
	}
	size, err := headSize(r.head)
	if err != nil || len(r.head) == tarBlock {
		return len(p), err
	}
	return len(p), r.start(r.head[tarBlock:][:size])
}

func headSize(header []byte) (int64, error) {
	size, err := strconv.ParseInt(string(header[124:135]), 8, 64)
	if err != nil || !bytes.Equal(header[:tarBlock], tarHeader(manifestName, size)) {
		return 0, errNotSnapshot
	}
	if size == 0 || size > maxManifestLen {
		return 0, fmt.Errorf("snapshot manifest of %d bytes: must be 1 to %d", size, maxManifestLen)
	}
	return size, nil
}

// start reads the manifest and lays out what must follow.
func (r *receiver) start(head []byte) error {
	if err := json.Unmarshal(head, &r.manifest); err != nil {
		return fmt.Errorf("snapshot manifest: %w", err)
	}
	if err := r.manifest.check(); err != nil {
		return err
	}
	segs := layout(head, r.manifest.Files)
	if !bytes.Equal(segs[0].literal, r.head) {
		return errors.New("snapshot manifest is damaged")
	}
	r.segs, r.at, r.head = segs, 1, nil
	if err := r.begin(&r.manifest); err != nil {
		return err
	}
	return r.advance()
}

// advance moves on from pieces that are whole, and opens the next file.
func (r *receiver) advance() error {
	for r.at < len(r.segs) {
		seg := r.segs[r.at]
		if seg.file != nil && r.out == nil {
			out, err := r.create(seg.file.Name)
			if err != nil {
				return err
			}
			r.out, r.sum = out, xxhash.New()
		}
		if r.off < seg.size() {
			return nil
		}
		if seg.file != nil {
			if err := r.closeFile(seg.file); err != nil {
				return err
			}
		}
		r.at, r.off = r.at+1, 0
	}
	return nil
}

func (r *receiver) takeFile(p []byte) error {
	r.sum.Write(p)
	// A vfs.File may change the bytes it is given, an io.Writer must not.
	r.scratch = append(r.scratch[:0], p...)
	_, err := r.out.Write(r.scratch)
	return err
}

func (r *receiver) closeFile(f *fileMeta) error {
	err := r.out.Close()
	r.out = nil
	if err == nil && sumHex(r.sum.Sum64()) != f.Sum {
		err = fmt.Errorf("snapshot file %s is damaged: its checksum differs", f.Name)
	}
	return err
}

// sender reads a snapshot's stream.
type sender struct {
	segs []segment
	open func(name string) (io.ReadCloser, error)

	at  int
	off int64
	in  io.ReadCloser // the current file
	sum *xxhash.Digest
}

// Read implements io.Reader. A file that changed on disk is an error.
func (s *sender) Read(p []byte) (int, error) {
	for s.at < len(s.segs) {
		seg := s.segs[s.at]
		if s.off == seg.size() {
			if err := s.endFile(seg.file); err != nil {
				return 0, err
			}
			s.at, s.off = s.at+1, 0
			continue
		}
		if seg.file == nil {
			n := copy(p, seg.literal[s.off:])
			s.off += int64(n)
			return n, nil
		}
		return s.readFile(p, seg.file)
	}
	return 0, io.EOF
}

func (s *sender) readFile(p []byte, f *fileMeta) (int, error) {
	if s.in == nil {
		in, err := s.open(f.Name)
		if err != nil {
			return 0, err
		}
		s.in, s.sum = in, xxhash.New()
	}
	n, err := s.in.Read(p[:min(int64(len(p)), f.Size-s.off)])
	s.sum.Write(p[:n])
	s.off += int64(n)
	if errors.Is(err, io.EOF) {
		err = nil
		if s.off < f.Size {
			err = fmt.Errorf("snapshot file %s is shorter than it was: %w", f.Name, io.ErrUnexpectedEOF)
		}
	}
	return n, err
}

func (s *sender) endFile(f *fileMeta) error {
	if s.in == nil {
		return nil
	}
	err := s.in.Close()
	s.in = nil
	if err == nil && sumHex(s.sum.Sum64()) != f.Sum {
		err = fmt.Errorf("snapshot file %s changed on disk: its checksum differs", f.Name)
	}
	return err
}

// Close implements io.Closer.
func (s *sender) Close() error {
	s.at = len(s.segs)
	if s.in == nil {
		return nil
	}
	err := s.in.Close()
	s.in = nil
	return err
}

package raftnode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// The layout of bbolt's file: pages with a header, of which the first two are
// metas, written in turn and each with a checksum; then trees of branch and leaf
// pages. A header or element is 16 bytes in the machine's byte order.
const (
	pageHead    = 16 // id 8, flags 2, count 2, overflow 4
	elementSize = 16 // branch: pos 4, key size 4, page 8; leaf: flags 4, pos 4, key size 4, value size 4
	bucketHead  = 16 // root page 8, sequence 8; an inline bucket's page follows

	flagBranch = 1
	flagLeaf   = 2
	flagBucket = 1 // of a leaf's element

	metaSize  = 64
	metaMagic = 0xED0CDAED
	metaSum   = 56 // where the meta's checksum is, of all before it
	minPage   = 1 << 10
	maxPage   = 64 << 10
	maxDepth  = 64
)

// pageFile reads the file of a bbolt that isn't open.
type pageFile struct {
	f        io.ReaderAt
	pageSize int64
	pages    uint64          // in use at most
	seen     map[uint64]bool // by id
}

// checkPages refuses a file whose pages don't make up a whole tree, before bbolt
// meets them: it would panic on a goroutine of its own. A damaged meta page is
// refused too, since bbolt would go on with the other one, which is that of the
// transaction before: the log would end earlier than was confirmed, or a vote be
// forgotten. A crash can't damage a meta, which lies within one sector.
func checkPages(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	p := pageFile{f: file, seen: map[uint64]bool{}}
	first, err := p.meta(0)
	if err != nil {
		return err
	}
	p.pageSize = int64(u32(first, 8))
	if p.pageSize < minPage || p.pageSize > maxPage {
		return p.damaged(0, "its size of pages is %d", p.pageSize)
	}
	newest, err := p.meta(p.pageSize)
	if err != nil {
		return err
	}
	if u64(first, 48) > u64(newest, 48) { // transactions
		newest = first
	}
	p.pages = u64(newest, 40)
	return p.tree(u64(newest, 16), span{})
}

func u32(b []byte, at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
func u64(b []byte, at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }

func (p *pageFile) damaged(page uint64, text string, args ...any) error {
	return fmt.Errorf("page %d: %w: %s", page, errDamaged, fmt.Sprintf(text, args...))
}

// meta reads the meta page at an offset.
func (p *pageFile) meta(offset int64) ([]byte, error) {
	b := make([]byte, metaSize)
	if err := p.read(b, offset+pageHead); err != nil {
		return nil, err
	}
	sum := fnv.New64a()
	sum.Write(b[:metaSum]) // a hash never fails
	if u32(b, 0) != metaMagic || u64(b, metaSum) != sum.Sum64() {
		return nil, fmt.Errorf("a meta page: %w", errDamaged)
	}
	return b, nil
}

func (p *pageFile) read(b []byte, offset int64) error {
	_, err := p.f.ReadAt(b, offset)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the file ends too early", errDamaged)
	}
	return err
}

// span is which keys a page may hold, and how deep it lies. Nil keys: any.
type span struct {
	from, to []byte
	depth    int
}

func (s span) holds(key []byte) bool {
	return bytes.Compare(s.from, key) <= 0 && (s.to == nil || bytes.Compare(key, s.to) < 0)
}

// tree checks the page of an id and all below it.
func (p *pageFile) tree(id uint64, keys span) error {
	if id < 2 || id >= p.pages || keys.depth > maxDepth {
		return p.damaged(id, "it can't be a part of the tree")
	}
	head := make([]byte, pageHead)
	offset := int64(id) * p.pageSize //nolint:gosec // below p.pages, which a checksum covers
	if err := p.read(head, offset); err != nil {
		return err
	}
	overflow := uint64(u32(head, 12))
	if u64(head, 0) != id || overflow >= p.pages-id {
		return p.damaged(id, "its header is of page %d with %d more", u64(head, 0), overflow)
	}
	for i := id; i <= id+overflow; i++ {
		if p.seen[i] {
			return p.damaged(id, "page %d belongs to the tree twice", i)
		}
		p.seen[i] = true
	}
	page := make([]byte, int64(1+overflow)*p.pageSize) //nolint:gosec // within the file
	if err := p.read(page, offset); err != nil {
		return err
	}
	return p.elements(id, page, keys)
}

// elements checks what is in a page: its elements' keys and values lie behind one
// another, so a changed count or size shows.
func (p *pageFile) elements(id uint64, page []byte, keys span) error {
	flags, count := binary.NativeEndian.Uint16(page[8:]), int(binary.NativeEndian.Uint16(page[10:]))
	if flags != flagBranch && flags != flagLeaf || flags == flagBranch && count == 0 {
		return p.damaged(id, "flags %d, %d elements", flags, count)
	}
	next := pageHead + count*elementSize // of the data
	below := span{depth: keys.depth + 1}
	var child uint64 // of the branch element before; its keys end where the next begin
	for i := range count {
		at := pageHead + i*elementSize
		if at+elementSize > len(page) {
			return p.damaged(id, "%d elements", count)
		}
		pos, keySize, valueSize := int(u32(page, at)), int(u32(page, at+4)), 0
		if flags == flagLeaf {
			pos, keySize, valueSize = int(u32(page, at+4)), int(u32(page, at+8)), int(u32(page, at+12))
		}
		if at+pos != next || keySize == 0 || next+keySize+valueSize > len(page) {
			return p.damaged(id, "element %d of %d", i, count)
		}
		key, value := page[next:next+keySize], page[next+keySize:next+keySize+valueSize]
		next += keySize + valueSize
		if !keys.holds(key) || i > 0 && bytes.Compare(below.from, key) >= 0 {
			return p.damaged(id, "the key of element %d of %d", i, count)
		}
		var err error
		switch {
		case flags == flagBranch && i > 0:
			below.to = key
			err = p.tree(child, below)
		case flags == flagLeaf && u32(page, at)&flagBucket != 0:
			err = p.bucket(id, value, span{depth: keys.depth + 1})
		}
		if err != nil {
			return err
		}
		below.from = key
		if flags == flagBranch {
			child = u64(page, at+8)
		}
	}
	if flags == flagBranch {
		below.to = keys.to
		return p.tree(child, below)
	}
	return nil
}

// bucket checks a bucket within a leaf.
func (p *pageFile) bucket(id uint64, value []byte, keys span) error {
	if len(value) < bucketHead || keys.depth > maxDepth {
		return p.damaged(id, "a bucket of %d bytes", len(value))
	}
	if root := u64(value, 0); root != 0 {
		return p.tree(root, keys)
	}
	if len(value) < bucketHead+pageHead {
		return p.damaged(id, "an inline bucket of %d bytes", len(value))
	}
	return p.elements(id, value[bucketHead:], keys)
}

package store

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/jepsentest/go/histories"
)

// root is one state of the file: everything a reader needs to find the rest.
type root struct {
	seq      uint64 // one more than the root before it
	complete bool   // the writer of the history closed it
	dense    bool   // every operation's index is its position
	chunks   int
	ops      int64
	height   int     // levels of the directory; 0 if there are no chunks
	dir      pointer // its topmost node
	meta     pointer
	results  pointer
	// previous is the last root of the session before, if there was one: the
	// state of the file before it was reopened.
	previous pointer
	names    histories.Names

	at pointer // where this root stands; not part of the block
}

const (
	rootComplete = 1 << iota
	rootDense
)

func (r *root) append(b []byte) []byte {
	flags := byte(0)
	if r.complete {
		flags |= rootComplete
	}
	if r.dense {
		flags |= rootDense
	}
	b = append(b, flags)
	b = appendUint(b, r.seq)
	b = appendUint(b, uint64(r.chunks))
	b = appendUint(b, uint64(r.ops))
	b = append(b, byte(r.height))
	b = appendPointer(b, r.dir)
	b = appendPointer(b, r.meta)
	b = appendPointer(b, r.results)
	b = appendPointer(b, r.previous)
	b = appendUint(b, uint64(len(r.names)))
	for _, n := range r.names {
		b = appendStr(b, n)
	}
	return b
}

func readRoot(f io.ReaderAt, size int64, at pointer) (*root, error) {
	data, err := readBlock(f, size, at, blockRoot)
	if err != nil {
		return nil, err
	}
	c := cursor{b: data}
	flags := c.byte()
	r := &root{at: at, complete: flags&rootComplete != 0, dense: flags&rootDense != 0}
	r.seq = c.uint()
	r.chunks = int(c.upTo(1 << 40))
	r.ops = int64(c.upTo(uint64(r.chunks) * maxChunkOps))
	r.height = int(c.upTo(maxHeight))
	r.dir, r.meta, r.results, r.previous = c.pointer(), c.pointer(), c.pointer(), c.pointer()
	r.names = make(histories.Names, c.count(1))
	for i := range r.names {
		r.names[i] = c.str()
	}
	if (r.chunks == 0) != (r.height == 0) || r.ops < int64(r.chunks) {
		c.fail("impossible counts")
	}
	if err := c.finish(); err != nil {
		return nil, corruptAt(err, at.off, "root block")
	}
	return r, nil
}

// fileID identifies the contents of a file: see header in FORMAT.md.
type fileID [16]byte

func newFileHeader() []byte {
	h := make([]byte, headerLen)
	copy(h, magic)
	binary.LittleEndian.PutUint32(h[8:], Version)
	rand.Read(h[16:32]) // never fails
	binary.LittleEndian.PutUint32(h[32:], crcOf(h[:32]))
	return h
}

func parseFileHeader(h []byte) (id fileID, err error) {
	if len(h) < headerLen || string(h[:8]) != magic {
		return id, ErrNotBlockLog
	}
	if crcOf(h[:32]) != binary.LittleEndian.Uint32(h[32:]) {
		return id, &CorruptError{What: "file header", Detail: "checksum does not match"}
	}
	if v := binary.LittleEndian.Uint32(h[8:]); v != Version {
		return id, fmt.Errorf("%w: %d, where %d is known", ErrVersion, v, Version)
	}
	copy(id[:], h[16:])
	return id, nil
}

// slot is one of the two places that say where the root is.
type slot struct {
	seq uint64
	at  pointer
}

// slotOffset returns where the slot for a sequence number is: they alternate.
func slotOffset(seq uint64) int64 { return slotsAt + int64(seq%2)*sector }

func (s slot) encode() []byte {
	b := make([]byte, slotLen)
	binary.LittleEndian.PutUint64(b[0:], s.seq)
	binary.LittleEndian.PutUint64(b[8:], uint64(s.at.off))
	binary.LittleEndian.PutUint32(b[16:], s.at.len)
	binary.LittleEndian.PutUint32(b[20:], crcOf(b[:20]))
	return b
}

// errUnused is what is wrong with a slot that was never written.
var errUnused = errors.New("never written")

func parseSlot(b []byte) (slot, error) {
	s := slot{
		seq: binary.LittleEndian.Uint64(b[0:]),
		at:  pointer{int64(binary.LittleEndian.Uint64(b[8:])), binary.LittleEndian.Uint32(b[16:])},
	}
	switch {
	case crcOf(b[:20]) == binary.LittleEndian.Uint32(b[20:]) && s.seq > 0:
		return s, nil
	case len(b) >= slotLen && allZero(b[:slotLen]):
		return s, errUnused
	}
	return s, errors.New("checksum does not match")
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// slotBytes returns the slots as they are, as far as the file goes.
func slotBytes(f io.ReaderAt) string {
	b := make([]byte, 2*slotLen)
	f.ReadAt(b[:slotLen], slotsAt)
	f.ReadAt(b[slotLen:], slotsAt+sector)
	return string(b)
}

// readSlots returns the usable slots, newest first, and what is wrong with the
// others. A file that ends within the slots has none.
func readSlots(f io.ReaderAt) (usable []slot, bad [2]error, err error) {
	for i := range bad {
		var b [slotLen]byte
		if _, err := f.ReadAt(b[:], slotsAt+int64(i)*sector); err != nil {
			if err != io.EOF && err != io.ErrUnexpectedEOF {
				return nil, bad, fmt.Errorf("read root slots: %w", err)
			}
			bad[i] = errors.New("the file ends before it")
			continue
		}
		s, err := parseSlot(b[:])
		if bad[i] = err; err != nil {
			continue
		}
		if len(usable) == 1 && s.seq > usable[0].seq {
			usable = []slot{s, usable[0]}
		} else {
			usable = append(usable, s)
		}
	}
	return usable, bad, nil
}

// currentRoot finds the state of the file by the recovery rule of the package
// comment. older reports that a root was committed that cannot be read, so that
// this one is older, or had to be searched for. A file in which no root was
// ever committed has the empty state, with a zero sequence number.
func currentRoot(f io.ReaderAt, size int64) (r *root, older bool, err error) {
	slots, bad, err := readSlots(f)
	if err != nil {
		return nil, false, err
	}
	var failure error
	for _, s := range slots {
		r, err := readRoot(f, size, s.at)
		if err == nil && r.seq != s.seq {
			err = &CorruptError{Offset: s.at.off, What: "root block", Detail: "sequence differs from the slot's"}
		}
		if err == nil {
			return r, failure != nil, nil
		}
		if !errors.Is(err, ErrCorrupt) {
			return nil, false, err
		}
		failure = errors.Join(failure, err)
	}
	r, err = scanForRoot(f, size)
	switch {
	case err != nil:
		return nil, true, err
	case r != nil:
		return r, true, nil
	case failure == nil && bad[0] == errUnused && bad[1] == errUnused:
		return &root{dense: true}, false, nil // its creation was interrupted
	case failure == nil:
		failure = &CorruptError{Offset: slotsAt, What: "root slots", Detail: fmt.Sprintf("%v; %v", bad[0], bad[1])}
	}
	return nil, true, fmt.Errorf("no usable root, and none in the log: %w", failure)
}

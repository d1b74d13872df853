package store

import (
	"time"

	"github.com/jepsentest/go/histories"
)

// entry describes one chunk: where its columns are and what they hold. It
// stands in the directory, and once more in a block after the columns, from
// which the directory can be rebuilt.
type entry struct {
	// off is where the first column begins; the others follow without gaps, in
	// the order of columnID. lens holds the length of each with its header; 0
	// means that the column is absent, as all its elements are the default.
	off  int64
	lens [numColumns]uint32

	// first is the position of the first operation in the history. Directory
	// nodes do not store it: it follows from the lengths of those before.
	first int64
	n     int
	// firstIndex is the index of the first operation. dense means that every
	// operation's index is its position.
	firstIndex int64
	dense      bool
	// reach is the position of the earliest invocation that is completed in
	// this chunk, if that is before the chunk; otherwise first. A chunk whose
	// reach is beyond an invocation cannot hold its completion.
	reach int64

	types            [histories.NumTypes]int
	minTime, maxTime time.Duration
	minProc, maxProc histories.Process
	// fs are the f's that occur. manyFs means that they were too many for the
	// directory, and must be read from the column.
	fs     []string
	manyFs bool
}

// maxEntryFs bounds the bytes that f's take in an entry, so that a directory
// node stays small in a history with thousands of them.
const maxEntryFs = 1024

const (
	entryDense = 1 << iota
	entryManyFs
)

// size returns the number of bytes of all columns.
func (e *entry) size() int64 {
	var n int64
	for _, l := range e.lens {
		n += int64(l)
	}
	return n
}

// column returns the place of a column, and false if it is absent.
func (e *entry) column(c columnID) (pointer, bool) {
	off := e.off
	for i := range c {
		off += int64(e.lens[i])
	}
	return pointer{off, e.lens[c]}, e.lens[c] != 0
}

// end returns the position after the last operation.
func (e *entry) end() int64 { return e.first + int64(e.n) }

func (e *entry) append(b []byte) []byte {
	flags := byte(0)
	if e.dense {
		flags |= entryDense
	}
	if e.manyFs {
		flags |= entryManyFs
	}
	b = append(b, flags)
	b = appendUint(b, uint64(e.n))
	b = appendUint(b, uint64(e.off))
	for _, l := range e.lens {
		b = appendUint(b, uint64(l))
	}
	if !e.dense {
		b = appendZigzag(b, e.firstIndex)
	}
	b = appendUint(b, uint64(e.first-e.reach))
	// The number of the first type follows from the others.
	for _, k := range e.types[1:] {
		b = appendUint(b, uint64(k))
	}
	b = appendZigzag(b, int64(e.minTime))
	b = appendUint(b, uint64(e.maxTime)-uint64(e.minTime))
	b = appendZigzag(b, int64(e.minProc))
	b = appendUint(b, uint64(e.maxProc)-uint64(e.minProc))
	b = appendUint(b, uint64(len(e.fs)))
	for _, f := range e.fs {
		b = appendStr(b, f)
	}
	return b
}

// read is the inverse of append; first must have been set.
func (e *entry) read(c *cursor) {
	flags := c.byte()
	e.dense, e.manyFs = flags&entryDense != 0, flags&entryManyFs != 0
	e.n = int(c.upTo(maxChunkOps))
	e.off = int64(c.upTo(1 << 62))
	for i := range e.lens {
		e.lens[i] = uint32(c.upTo(maxRaw + blockHeader))
	}
	if e.firstIndex = e.first; !e.dense {
		e.firstIndex = c.int()
	}
	e.reach = e.first - int64(c.upTo(uint64(e.first)))
	e.types[0] = e.n
	for t := 1; t < len(e.types); t++ {
		k := int(c.upTo(uint64(e.types[0])))
		e.types[t] = k
		e.types[0] -= k
	}
	e.minTime = time.Duration(c.int())
	e.maxTime = time.Duration(uint64(e.minTime) + c.uint())
	e.minProc = histories.Process(c.int())
	e.maxProc = histories.Process(uint64(e.minProc) + c.uint())
	e.fs = make([]string, c.count(1))
	for i := range e.fs {
		e.fs[i] = c.str()
	}
	if e.n == 0 || flags&^(entryDense|entryManyFs) != 0 {
		c.fail("bad chunk entry")
	}
}

// summary returns what the entry says about the operations. Its Fs are not
// complete if manyFs.
func (e *entry) summary() histories.Summary {
	return histories.Summary{
		Ops: e.n, Types: e.types, Fs: e.fs,
		MinTime: e.minTime, MaxTime: e.maxTime,
		MinProc: e.minProc, MaxProc: e.maxProc, Named: e.minProc < 0,
	}
}

// appendChunkBlock encodes the block that follows the columns of a chunk: its
// number and first position, and its entry.
func appendChunkBlock(b []byte, number int, e *entry) []byte {
	b = appendUint(b, uint64(number))
	b = appendUint(b, uint64(e.first))
	return e.append(b)
}

func readChunkBlock(data []byte) (number int, e entry, err error) {
	c := cursor{b: data}
	number = int(c.upTo(1 << 40))
	e.first = int64(c.upTo(1 << 62))
	e.read(&c)
	return number, e, c.finish()
}

package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// The constants in this file are part of the file format: see FORMAT.md.

// Version is the version of the format that this package writes.
const Version = 1

const (
	magic      = "JTBLKLOG"
	sector     = 4096
	slotsAt    = sector     // root slot i is at slotsAt + i*sector
	firstBlock = 3 * sector // where the log begins
	headerLen  = 36
	slotLen    = 24

	blockMagic  = 0x4b4c424a // "JBLK", little endian
	blockHeader = 20

	// Limits that bound what a damaged or hostile file can make the reader do.
	maxRaw      = 64 << 20 // bytes in a block, uncompressed
	maxDecoded  = 64 << 20 // bytes of memory for a decoded column of values
	maxChunkOps = 65536    // operations in a chunk
	maxDepth    = 256      // nesting of values
	maxHeight   = 12       // levels of the directory

	fanout = 64 // entries in a node of the directory
)

// blockType says what a block holds.
type blockType uint8

const (
	blockColumn  blockType = 1 + iota // one column of a chunk
	blockChunk                        // the description of a chunk, after its columns
	blockNode                         // a node of the directory of chunks
	blockRoot                         // a root
	blockMeta                         // the metadata: one value
	blockResults                      // the verdict, and references to results
	blockResult                       // one result: one value
	numBlockTypes
)

func (t blockType) String() string {
	switch t {
	case blockColumn:
		return "column"
	case blockChunk:
		return "chunk"
	case blockNode:
		return "directory"
	case blockRoot:
		return "root"
	case blockMeta:
		return "metadata"
	case blockResults:
		return "results"
	case blockResult:
		return "result"
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// codec says how a block is compressed.
type codec uint8

const (
	codecRaw codec = iota
	codecS2
	codecZstd
)

// columnID numbers the columns of a chunk, in the order in which they are
// stored: the small ones that folds read on their own first, values last.
type columnID uint8

const (
	colType columnID = iota
	colPhase
	colWho // process and pairing
	colTime
	colF
	colIndex
	colError
	colExtra
	colValue
	numColumns
)

var columnNames = [numColumns]string{"type", "phase", "process", "time", "f", "index", "error", "extra", "value"}

func (c columnID) String() string {
	if c < numColumns {
		return columnNames[c]
	}
	return fmt.Sprintf("column %d", uint8(c))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func crcOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// pointer refers to a block. The zero pointer refers to nothing.
type pointer struct {
	off int64  // of its header
	len uint32 // header and data
}

func (p pointer) isZero() bool { return p.off == 0 }

func appendPointer(b []byte, p pointer) []byte {
	b = binary.AppendUvarint(b, uint64(p.off))
	return binary.AppendUvarint(b, uint64(p.len))
}

// CorruptError says where a file is damaged, and how. It wraps [ErrCorrupt].
type CorruptError struct {
	Path   string // the file, if known
	Offset int64  // the block or other structure that is damaged
	What   string // what is there: "value column of chunk 17"
	Detail string // what is wrong with it
}

func (e *CorruptError) Error() string {
	s := fmt.Sprintf("%s at offset %d: %v: %s", e.What, e.Offset, ErrCorrupt, e.Detail)
	if e.Path != "" {
		s = e.Path + ": " + s
	}
	return s
}

func (e *CorruptError) Unwrap() error { return ErrCorrupt }

func zigzag(i int64) uint64   { return uint64(i<<1) ^ uint64(i>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

func appendZigzag(b []byte, i int64) []byte {
	u := zigzag(i)
	if u < 0x80 {
		return append(b, byte(u))
	}
	return binary.AppendUvarint(b, u)
}

func appendUint(b []byte, u uint64) []byte {
	if u < 0x80 {
		return append(b, byte(u))
	}
	return binary.AppendUvarint(b, u)
}

func appendStr(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// cursor reads the contents of a block. After the first malformed item every
// read returns zero, and bad says what was wrong.
type cursor struct {
	b   []byte
	pos int
	bad string
}

func (c *cursor) fail(what string) {
	if c.bad == "" {
		c.bad = what
	}
	c.pos = len(c.b)
}

func (c *cursor) left() int { return len(c.b) - c.pos }

func (c *cursor) byte() byte {
	if c.pos >= len(c.b) {
		c.fail("ends early")
		return 0
	}
	v := c.b[c.pos]
	c.pos++
	return v
}

func (c *cursor) uint() uint64 {
	if c.pos < len(c.b) {
		if v := c.b[c.pos]; v < 0x80 {
			c.pos++
			return uint64(v)
		}
	}
	return c.slowUint()
}

func (c *cursor) slowUint() uint64 {
	v, n := binary.Uvarint(c.b[c.pos:])
	if n <= 0 {
		c.fail("bad number")
		return 0
	}
	c.pos += n
	return v
}

func (c *cursor) int() int64 { return unzigzag(c.uint()) }

// count reads a number of things that take at least size bytes each.
func (c *cursor) count(size int) int {
	v := c.uint()
	if v > uint64(c.left()/size) {
		c.fail("count beyond the end")
		return 0
	}
	return int(v)
}

// upTo reads a number that is at most limit.
func (c *cursor) upTo(limit uint64) uint64 {
	v := c.uint()
	if v > limit {
		c.fail("number out of range")
		return 0
	}
	return v
}

func (c *cursor) bytes(n int) []byte {
	if n < 0 || n > c.left() {
		c.fail("ends early")
		return nil
	}
	b := c.b[c.pos : c.pos+n : c.pos+n]
	c.pos += n
	return b
}

func (c *cursor) str() string { return string(c.bytes(c.count(1))) }

func (c *cursor) pointer() pointer {
	return pointer{int64(c.upTo(1 << 62)), uint32(c.upTo(maxRaw + blockHeader))}
}

// finish returns an error unless everything was read, and read well.
func (c *cursor) finish() error {
	if c.bad == "" && c.pos != len(c.b) {
		c.bad = fmt.Sprintf("%d bytes too many", len(c.b)-c.pos)
	}
	return c.err()
}

func (c *cursor) err() error {
	if c.bad != "" {
		return fmt.Errorf("%w: %s", ErrCorrupt, c.bad)
	}
	return nil
}

package store

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/jepsentest/go/histories"
)

// chunkEncoder is the open chunk: it encodes operations as they come into one
// buffer per column, so nothing of an operation is kept. Its buffers are used
// again for later chunks, and in steady state nothing is allocated.
type chunkEncoder struct {
	entry // what the directory will say; complete after finish
	ops   int

	types  []histories.Type
	phases []histories.Phase
	fs     []uint32 // codes
	who    []byte
	time   []byte
	index  []byte
	errors rareColumn
	extra  rareColumn
	values valueEncoder

	hasPhase  bool
	lastTime  time.Duration
	lastIndex int64
	names     map[string]uint32
	nameBytes int
	scratch   []byte

	opened time.Time // when the first operation came
}

// rareColumn is a column in which most operations have nothing: each element
// that is there is preceded by the distance from the one before.
type rareColumn struct {
	buf   []byte
	after int // the operation after the last with an element
	count int
}

func (r *rareColumn) reset() { r.buf, r.after, r.count = r.buf[:0], 0, 0 }

func (r *rareColumn) begin(i int) {
	r.buf = appendUint(r.buf, uint64(i-r.after))
	r.after = i + 1
	r.count++
}

// maxChunkBytes is the size of encoded or decoded values at which a chunk is
// sealed early, so that it stays well within what a reader accepts.
const maxChunkBytes = 16 << 20

// maxF is the longest f.
const maxF = 64 << 10

func (e *chunkEncoder) reset(first int64) {
	e.entry = entry{first: first, reach: first, dense: true, fs: e.entry.fs[:0]}
	e.ops = 0
	e.types, e.phases, e.fs = e.types[:0], e.phases[:0], e.fs[:0]
	e.who, e.time, e.index = e.who[:0], e.time[:0], e.index[:0]
	e.errors.reset()
	e.extra.reset()
	e.values.reset()
	e.hasPhase, e.lastTime, e.lastIndex, e.nameBytes = false, 0, 0, 0
	clear(e.names)
}

// check reports whether op can be encoded. Encoding cannot fail after that.
func (e *chunkEncoder) check(op *histories.Op) error {
	if !op.Type.Valid() {
		return fmt.Errorf("%w: unknown %v", ErrUnencodable, op.Type)
	}
	if op.Phase > histories.End {
		return fmt.Errorf("%w: unknown %v", ErrUnencodable, op.Phase)
	}
	if op.Time == histories.Missing || op.Index < 0 {
		return fmt.Errorf("%w: an operation needs an index and a time, and has %d and %d", ErrUnencodable, op.Index, op.Time)
	}
	if len(op.F) > maxF {
		return fmt.Errorf("%w: f of %d bytes, where %d is the most", ErrUnencodable, len(op.F), maxF)
	}
	v := &e.values
	v.begin()
	if simpleTxn(op.Value) && op.Error.IsNil() && op.Extra == nil {
		return nil
	}
	if err := v.check(op.Value, "value"); err != nil {
		return err
	}
	if err := v.check(op.Error, "error"); err != nil {
		return err
	}
	for i := range op.Extra {
		name := op.Extra[i].Name
		if len(name) > maxF {
			return fmt.Errorf("%w: name of %d bytes, where %d is the most", ErrUnencodable, len(name), maxF)
		}
		if err := v.check(op.Extra[i].Value, name); err != nil {
			return err
		}
	}
	return nil
}

// add appends an operation that check accepted. inv is the position of the
// invocation that it completes, or negative.
func (e *chunkEncoder) add(op *histories.Op, inv int64) {
	i := e.ops
	pos := e.first + int64(i)
	if i == 0 {
		e.firstIndex = op.Index
		e.minTime, e.maxTime, e.minProc, e.maxProc = op.Time, op.Time, op.Process, op.Process
	}
	e.ops++
	e.entry.types[op.Type]++
	e.types = append(e.types, op.Type)
	e.phases = append(e.phases, op.Phase)
	e.hasPhase = e.hasPhase || op.Phase != histories.NoPhase

	// The process of a completion is that of its invocation, if that is in the
	// same chunk.
	back := pos - inv
	if inv < 0 {
		back = 0
	}
	if op.Type != histories.Invoke {
		e.who = appendUint(e.who, uint64(back))
	}
	if op.Type == histories.Invoke || inv < e.first {
		e.who = appendZigzag(e.who, int64(op.Process))
	}
	if inv >= 0 {
		e.reach = min(e.reach, inv)
	}
	e.minProc, e.maxProc = min(e.minProc, op.Process), max(e.maxProc, op.Process)

	e.time = appendZigzag(e.time, int64(op.Time-e.lastTime))
	e.lastTime = op.Time
	e.minTime, e.maxTime = min(e.minTime, op.Time), max(e.maxTime, op.Time)

	e.index = appendZigzag(e.index, op.Index-e.lastIndex)
	e.lastIndex = op.Index
	e.dense = e.dense && op.Index == pos

	e.fs = append(e.fs, e.internF(op.F))

	shapeOf := -1
	if inv >= e.first {
		shapeOf = int(inv - e.first)
	}
	e.values.add(op.Value, shapeOf)
	if !op.Error.IsNil() {
		e.errors.begin(i)
		e.errors.buf = e.values.appendTo(e.errors.buf, op.Error)
	}
	if len(op.Extra) > 0 {
		e.extra.begin(i)
		e.extra.buf = appendUint(e.extra.buf, uint64(len(op.Extra)))
		for j := range op.Extra {
			e.extra.buf = appendStr(e.extra.buf, op.Extra[j].Name)
			e.extra.buf = e.values.appendTo(e.extra.buf, op.Extra[j].Value)
		}
	}
}

// internF returns the code of f. Most tests have one or a few, which a scan
// finds sooner than a map does.
func (e *chunkEncoder) internF(f string) uint32 {
	list := e.entry.fs
	for i := range min(len(list), 8) {
		if list[i] == f {
			return uint32(i)
		}
	}
	if len(list) > 8 {
		if code, ok := e.names[f]; ok {
			return code
		}
	}
	code := uint32(len(list))
	f = string([]byte(f)) // the caller may reuse its memory
	e.entry.fs = append(list, f)
	e.nameBytes += len(f) + 1
	if code >= 8 {
		if e.names == nil {
			e.names = make(map[string]uint32)
		}
		e.names[f] = code
	}
	return code
}

// full reports whether the chunk must be sealed.
func (e *chunkEncoder) full(ops int) bool {
	return e.ops >= ops || e.values.size() >= maxChunkBytes || e.nameBytes >= maxChunkBytes ||
		len(e.errors.buf)+len(e.extra.buf) >= maxChunkBytes/decodedFactor
}

// finish appends the columns, and the block that describes them, to p. It
// returns the entry for the directory.
func (e *chunkEncoder) finish(p *packer, number int) entry {
	e.n = e.ops
	e.off = p.end()
	e.lens = [numColumns]uint32{}
	put := func(c columnID, data []byte) { e.lens[c] = p.add(blockColumn, data).len }

	p.on = false // packed already; reading it must be quick
	e.scratch = packBits(e.scratch[:0], e.types, 2)
	put(colType, e.scratch)
	if e.hasPhase {
		e.scratch = packBits(e.scratch[:0], e.phases, 2)
		put(colPhase, e.scratch)
	}
	p.on = true
	put(colWho, e.who)
	put(colTime, e.time)
	e.scratch = appendFColumn(e.scratch[:0], e.entry.fs, e.fs)
	put(colF, e.scratch)
	if !e.dense {
		put(colIndex, e.index)
	}
	if e.errors.count > 0 {
		put(colError, e.errors.buf)
	}
	if e.extra.count > 0 {
		put(colExtra, e.extra.buf)
	}
	put(colValue, e.values.finish())

	out := e.entry
	if out.manyFs = e.nameBytes > maxEntryFs; out.manyFs {
		out.fs = nil
	} else {
		out.fs = slices.Clone(out.fs) // the encoder will be used again
	}
	e.scratch = appendChunkBlock(e.scratch[:0], number, &out)
	p.add(blockChunk, e.scratch)
	return out
}

// packBits packs elements into the given number of bits each, 1, 2, 4 or 8,
// the first into the lowest bits.
func packBits[T ~uint8 | ~uint32](b []byte, vs []T, bits int) []byte {
	per := 8 / bits
	for len(vs) >= per {
		var x byte
		for j, v := range vs[:per] {
			x |= byte(v) << (j * bits)
		}
		b = append(b, x)
		vs = vs[per:]
	}
	if len(vs) > 0 {
		var x byte
		for j, v := range vs {
			x |= byte(v) << (j * bits)
		}
		b = append(b, x)
	}
	return b
}

// bitsFor returns the width in which codes below n are packed, and 0 if they
// do not fit into a byte.
func bitsFor(n int) int {
	switch {
	case n <= 2:
		return 1
	case n <= 4:
		return 2
	case n <= 16:
		return 4
	case n <= 256:
		return 8
	}
	return 0
}

// appendFColumn encodes the dictionary of f's and, unless there is only one,
// the codes: packed, or as 16 bits each.
func appendFColumn(b []byte, names []string, codes []uint32) []byte {
	b = appendUint(b, uint64(len(names)))
	for _, f := range names {
		b = appendStr(b, f)
	}
	if len(names) == 1 {
		return b
	}
	if bits := bitsFor(len(names)); bits > 0 {
		return packBits(b, codes, bits)
	}
	for _, c := range codes {
		b = binary.LittleEndian.AppendUint16(b, uint16(c))
	}
	return b
}

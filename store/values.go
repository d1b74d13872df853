package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"unsafe"

	"github.com/jepsentest/go/histories"
)

// Values are encoded with a tag of one byte. Two encodings share the tags:
//
//   - the plain one, which depends on nothing before it: metadata, results,
//     errors, extra fields, and whatever is nested in another value;
//   - that of the column of values, which also refers to earlier values of the
//     same chunk: a transaction like its invocation, a list that extends an
//     earlier one, a key from the chunk's dictionary.
//
// The numbers are part of the file format.
const (
	tagNil = iota
	tagFalse
	tagTrue
	tagInt     // zigzag
	tagFloat   // 8 bytes
	tagString  // length, bytes
	tagKeyword // length, bytes
	tagBytes   // length, bytes
	tagList    // count, values
	tagInts    // count, differences to the integer before
	tagMap     // count, keys and values
	tagSet     // count, values
	tagTxn     // count; kind, key and value of each micro-operation
	tagTuple   // two values
	tagTagged  // length, tag, value
	tagCustom  // length, codec's name, length, bytes

	tagChain    // only in the column: a list, relative to a chain
	tagKeyTuple // only in the column: key reference, value
	tagLike     // only in the column: distance; like that transaction

	tagColTxn   = 0x20 // … 0x2f: only in the column: a transaction of 0 … 14 micro-operations; 0x2f: count
	tagSmall    = 0x40 // … 0x7f: the integers from smallMin
	tagLikeNear = 0x80 // … 0xff: like tagLike with a distance of tag-0x7f
	smallMin    = -8
	smallMax    = smallMin + 0x3f
)

// How a micro-operation in the column is introduced: a byte of kind (2 bits),
// form (2 bits) and key (4 bits).
const (
	formNil    = 0 // the value is nil
	formInt    = 1 // difference to the last integer under this key
	formCoded  = 2 // a code, see below
	keyInline  = 13
	keyFar     = 14 // distance from the newest key
	keyNew     = 15 // a value, which becomes the newest key
	keyNearMax = 12
)

// How a value under a key is encoded where it may be anything.
const (
	codeNil   = 0
	codeFresh = 1 // a list of integers, which begins a new chain for the key
	codeInt   = 2 // difference to the last integer under this key
	codePlain = 3 // a plain value
	codeChain = 4 // and above: zigzag of the difference in length to the key's chain
)

// Sizes of what is decoded, for the limit on a chunk's memory.
const (
	sizeValue = int(unsafe.Sizeof(histories.Value{}))
	sizeMop   = int(unsafe.Sizeof(histories.Mop{}))
	sizeEntry = int(unsafe.Sizeof(histories.Entry{}))

	// decodedFactor is the most bytes of memory that a byte of a plain value
	// can stand for: an entry of a map takes at least two bytes.
	decodedFactor = 24
)

// valueEncoder encodes the column of values of one chunk.
//
// It looks for three kinds of redundancy that histories of transactions are
// full of. A completion has the micro-operations of its invocation, with the
// reads filled in: only these are written. Under one key, lists that are read
// mostly extend what was read before: each key has a chain, the longest list
// so far, and only what goes beyond it is written. And appended integers
// mostly count up by key.
type valueEncoder struct {
	buf    []byte
	codecs []Codec

	keys    []keyState
	intKeys map[int64]uint32
	strKeys map[string]uint32 // strings after an s, keywords after a k
	chains  [][]int64         // longest list so far; backing arrays are kept
	live    int               // chains in use
	solo    int32             // the chain of lists that stand alone

	shapes  []shape // of the transactions so far
	shapeAt []shapeRange

	// What the decoder will need, besides the chains.
	mops, vals, entries, ints int
	chained                   int // elements of all chains

	ready   []byte // encoded custom values of the operation under way
	readyAt []int  // where each ends in ready
	taken   int
	scratch []int64
	text    []byte
}

type keyState struct {
	chain int32 // -1: none yet
	last  int64 // last integer written under the key
	num   int64 // the key, if it is an integer
	isInt bool
}

// shape is what a completion is compared with.
type shape struct {
	arg    int64
	key    uint32
	kind   histories.MopKind
	hasArg bool
}

type shapeRange struct{ start, n int32 } // n < 0: not a transaction that can be referred to

func (e *valueEncoder) reset() {
	e.buf, e.keys, e.live, e.solo = e.buf[:0], e.keys[:0], 0, -1
	if e.intKeys == nil {
		e.intKeys, e.strKeys = make(map[int64]uint32), make(map[string]uint32)
	}
	clear(e.intKeys)
	clear(e.strKeys)
	e.shapes, e.shapeAt = e.shapes[:0], e.shapeAt[:0]
	e.mops, e.vals, e.entries, e.ints, e.chained = 0, 0, 0, 0, 0
}

// size estimates the larger of the encoded and the decoded column.
func (e *valueEncoder) size() int {
	return len(e.buf) + e.mops*sizeMop + e.vals*sizeValue + e.entries*sizeEntry + (e.ints+e.chained)*8
}

// finish completes the column with a trailer that says how much memory the
// decoder needs: the slabs, and the final length of each chain.
func (e *valueEncoder) finish() []byte {
	stream := len(e.buf)
	b := e.buf
	for _, n := range []int{e.mops, e.vals, e.entries, e.ints, len(e.keys), e.live} {
		b = appendUint(b, uint64(n))
	}
	for _, c := range e.chains[:e.live] {
		b = appendUint(b, uint64(len(c)))
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(b)-stream))
	e.buf = b
	return b
}

// begin prepares for the values of one operation.
func (e *valueEncoder) begin() { e.ready, e.readyAt, e.taken = e.ready[:0], e.readyAt[:0], 0 }

// simpleTxn reports whether v is nil, an integer, or a transaction over
// integer keys with nothing but these and lists of integers: values that can
// always be encoded.
func simpleTxn(v histories.Value) bool {
	mops, ok := v.Txn()
	if !ok {
		k := v.Kind()
		return k == histories.KindNil || k == histories.KindInt
	}
	total := 0
	for i := range mops {
		m := &mops[i]
		if _, ok := m.Key.Int(); !ok || !m.Kind.Valid() {
			return false
		}
		if m.Value.IsNil() {
			continue
		}
		if _, ok := m.Value.Int(); ok {
			continue
		}
		is, ok := m.Value.Ints()
		if !ok {
			return false
		}
		total += len(is)
	}
	return total*10+len(mops)*sizeMop < maxChunkBytes
}

// check reports whether v can be encoded, and encodes the custom values in it,
// which only their codecs can tell.
func (e *valueEncoder) check(v histories.Value, path string) error {
	size := 0
	if err := e.checkAt(v, 0, &size); err != nil {
		return fmt.Errorf("%w: %s%s: %w", ErrUnencodable, path, err.path, err.cause)
	}
	return nil
}

// unencodable says what is wrong with a part of a value. The path to it is put
// together on the way out, so that checking a good value makes none.
type unencodable struct {
	path  string
	cause error
}

func (u *unencodable) in(format string, args ...any) *unencodable {
	u.path = fmt.Sprintf(format, args...) + u.path
	return u
}

func (e *valueEncoder) checkAt(v histories.Value, depth int, size *int) *unencodable {
	if depth > maxDepth {
		return &unencodable{cause: fmt.Errorf("nested deeper than %d", maxDepth)}
	}
	switch v.Kind() {
	case histories.KindString, histories.KindKeyword, histories.KindBytes:
		*size += v.Len()
	case histories.KindList, histories.KindSet, histories.KindTuple:
		if is, ok := v.Ints(); ok {
			*size += 10 * len(is)
			break
		}
		*size += v.Len() * sizeValue
		for i := range v.Len() {
			if err := e.checkAt(v.At(i), depth+1, size); err != nil {
				return err.in("[%d]", i)
			}
		}
	case histories.KindMap:
		entries, _ := v.Map()
		*size += len(entries) * sizeEntry
		for i := range entries {
			err := e.checkAt(entries[i].Key, depth+1, size)
			if err == nil {
				err = e.checkAt(entries[i].Value, depth+1, size)
			}
			if err != nil {
				return err.in(".%s", name(entries[i].Key))
			}
		}
	case histories.KindTxn:
		mops, _ := v.Txn()
		*size += len(mops) * sizeMop
		for i := range mops {
			if !mops[i].Kind.Valid() {
				return (&unencodable{cause: fmt.Errorf("unknown %v", mops[i].Kind)}).in("[%d]", i)
			}
			if err := e.checkAt(mops[i].Key, depth+1, size); err != nil {
				return err.in("[%d].key", i)
			}
			if err := e.checkAt(mops[i].Value, depth+1, size); err != nil {
				return err.in("[%d].value", i)
			}
		}
	case histories.KindTagged:
		tag, w, _ := v.Tagged()
		*size += len(tag)
		if err := e.checkAt(w, depth+1, size); err != nil {
			return err.in("#%s", tag)
		}
	case histories.KindCustom:
		c, _ := v.Custom()
		if raw, ok := c.(rawCustom); ok {
			*size += len(raw.data)
			break
		}
		codec := e.codecOf(c)
		if codec == nil {
			return &unencodable{cause: fmt.Errorf("no codec for values of type %T", c)}
		}
		out, err := codec.append(e.ready, c)
		if err != nil {
			return &unencodable{cause: fmt.Errorf("codec %s: %w", codec.name, err)}
		}
		*size += len(out) - len(e.ready)
		e.ready = out
		e.readyAt = append(e.readyAt, len(out))
	}
	if *size > maxChunkBytes {
		return &unencodable{cause: fmt.Errorf("larger than %d MiB", maxChunkBytes>>20)}
	}
	return nil
}

// name renders a map's key as part of a path.
func name(v histories.Value) string {
	if s, ok := v.Str(); ok {
		return s
	}
	if s, ok := v.Keyword(); ok {
		return s
	}
	return v.String()
}

func (e *valueEncoder) codecOf(v any) *Codec {
	t := reflect.TypeOf(v)
	for i := range e.codecs {
		if e.codecs[i].typ == t {
			return &e.codecs[i]
		}
	}
	return nil
}

// appendTo appends the plain encoding of v, which check accepted, to b. It
// does not count towards what the decoder of the column needs.
func (e *valueEncoder) appendTo(b []byte, v histories.Value) []byte {
	column, mops, vals, entries, ints := e.buf, e.mops, e.vals, e.entries, e.ints
	e.buf = b
	e.plain(v)
	b, e.buf = e.buf, column
	e.mops, e.vals, e.entries, e.ints = mops, vals, entries, ints
	return b
}

func (e *valueEncoder) putInt(i int64) {
	if i >= smallMin && i <= smallMax {
		e.buf = append(e.buf, byte(tagSmall+i-smallMin))
		return
	}
	e.buf = appendZigzag(append(e.buf, tagInt), i)
}

func (e *valueEncoder) putText(tag byte, s string) {
	e.buf = appendStr(append(e.buf, tag), s)
}

func (e *valueEncoder) putDiffs(last int64, is []int64) {
	b := e.buf
	for _, i := range is {
		b = appendZigzag(b, i-last) // wraps around, and back when decoded
		last = i
	}
	e.buf = b
}

// plain appends v to the buffer in the encoding that refers to nothing.
func (e *valueEncoder) plain(v histories.Value) {
	switch v.Kind() {
	case histories.KindNil:
		e.buf = append(e.buf, tagNil)
	case histories.KindBool:
		if b, _ := v.Bool(); b {
			e.buf = append(e.buf, tagTrue)
		} else {
			e.buf = append(e.buf, tagFalse)
		}
	case histories.KindInt:
		i, _ := v.Int()
		e.putInt(i)
	case histories.KindFloat:
		f, _ := v.Float()
		e.buf = binary.LittleEndian.AppendUint64(append(e.buf, tagFloat), math.Float64bits(f))
	case histories.KindString:
		s, _ := v.Str()
		e.putText(tagString, s)
	case histories.KindKeyword:
		s, _ := v.Keyword()
		e.putText(tagKeyword, s)
	case histories.KindBytes:
		s, _ := v.Bytes()
		e.buf = append(appendUint(append(e.buf, tagBytes), uint64(len(s))), s...)
	case histories.KindList:
		if is, ok := e.intsOf(v); ok && len(is) > 0 {
			e.ints += len(is)
			e.buf = appendUint(append(e.buf, tagInts), uint64(len(is)))
			e.putDiffs(0, is)
			return
		}
		e.putAll(tagList, v)
	case histories.KindSet:
		e.putAll(tagSet, v)
	case histories.KindMap:
		entries, _ := v.Map()
		e.entries += len(entries)
		e.buf = appendUint(append(e.buf, tagMap), uint64(len(entries)))
		for i := range entries {
			e.plain(entries[i].Key)
			e.plain(entries[i].Value)
		}
	case histories.KindTxn:
		mops, _ := v.Txn()
		e.mops += len(mops)
		e.buf = appendUint(append(e.buf, tagTxn), uint64(len(mops)))
		for i := range mops {
			e.buf = append(e.buf, byte(mops[i].Kind))
			e.plain(mops[i].Key)
			e.plain(mops[i].Value)
		}
	case histories.KindTuple:
		e.vals += 2
		e.buf = append(e.buf, tagTuple)
		e.plain(v.At(0))
		e.plain(v.At(1))
	case histories.KindTagged:
		tag, w, _ := v.Tagged()
		e.putText(tagTagged, tag)
		e.plain(w)
	case histories.KindCustom:
		e.putCustom(v)
	}
}

func (e *valueEncoder) putAll(tag byte, v histories.Value) {
	vs, _ := v.List()
	e.vals += len(vs)
	e.buf = appendUint(append(e.buf, tag), uint64(len(vs)))
	for i := range vs {
		e.plain(vs[i])
	}
}

// rawCustom is a custom value as it was stored. It lets an operation be copied
// from file to file without its codec.
type rawCustom struct {
	name string
	data []byte
}

// putCustom takes what check encoded: customs are met in the same order.
func (e *valueEncoder) putCustom(v histories.Value) {
	c, _ := v.Custom()
	if raw, ok := c.(rawCustom); ok {
		e.putText(tagCustom, raw.name)
		e.buf = append(appendUint(e.buf, uint64(len(raw.data))), raw.data...)
		return
	}
	codec := e.codecOf(c)
	from := 0
	if e.taken > 0 {
		from = e.readyAt[e.taken-1]
	}
	data := e.ready[from:e.readyAt[e.taken]]
	e.taken++
	e.putText(tagCustom, codec.name)
	e.buf = append(appendUint(e.buf, uint64(len(data))), data...)
}

// intsOf returns the elements of a list that holds nothing but integers. They
// may stand in a buffer that is used again.
func (e *valueEncoder) intsOf(v histories.Value) ([]int64, bool) {
	if is, ok := v.Ints(); ok {
		return is, true
	}
	if v.Kind() != histories.KindList {
		return nil, false
	}
	vs, _ := v.List()
	out := e.scratch[:0]
	for i := range vs {
		n, ok := vs[i].Int()
		if !ok {
			return nil, false
		}
		out = append(out, n)
	}
	e.scratch = out
	return out, true
}

package store

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/jepsentest/go/histories"
)

// slab hands out parts of one allocation. What does not fit is malformed: the
// encoder said how much there would be.
type slab[T any] struct {
	free []T
	kept []T // memory that is used again
}

// get returns memory for n elements: new and zero, or that of the time before.
func (s *slab[T]) get(n int, again bool) []T {
	if !again {
		return make([]T, n)
	}
	s.kept = growTo(s.kept, n)
	return s.kept
}

func (s *slab[T]) take(c *cursor, n int) []T {
	if n < 0 || n > len(s.free) {
		c.fail("more elements than announced")
		return nil
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}

// valueOptions say what becomes of custom values.
type valueOptions struct {
	codecs  []Codec
	keepRaw bool // they become rawCustom
}

// valueDecoder decodes values. The strings and binary data that it returns
// share the memory of the encoded bytes; everything else stands in slabs.
type valueDecoder struct {
	cursor
	valueOptions

	// loose makes every list an allocation of its own, which is how values
	// outside a column are decoded: nobody counted their elements.
	loose   bool
	budget  int // bytes that loose values may still take
	mops    slab[histories.Mop]
	vals    slab[histories.Value]
	entries slab[histories.Entry]
	ints    slab[int64]
	elems   slab[int64] // of chains

	memory   int  // bytes of all slabs of the column
	usesText bool // whether a value shares the memory of the encoded bytes

	// The state of the column: see valueEncoder.
	keys   []decodedKey
	chains []decodedChain
	live   int
	solo   int32
	keyOf  []uint32 // by micro-operation
	mopAt  []int32  // by operation: its first micro-operation, or -1
}

type decodedKey struct {
	value histories.Value
	chain int32
	last  int64
}

// decodedChain is a chain's memory, of its final length, and how much of it
// has been decoded.
type decodedChain struct {
	elems []int64
	n     int
}

// decodePlain decodes one value that stands alone, up to the end of data.
func decodePlain(data []byte, opts valueOptions) (histories.Value, error) {
	d := valueDecoder{cursor: cursor{b: data}, valueOptions: opts, loose: true, budget: maxDecoded}
	v := d.plain(0)
	return v, d.finish()
}

// take returns n elements: of the slab, or new ones that are within budget.
func take[T any](d *valueDecoder, s *slab[T], n int) []T {
	if !d.loose {
		return s.take(&d.cursor, n)
	}
	var t T
	if d.budget -= n * int(unsafe.Sizeof(t)); d.budget < 0 {
		d.fail("value takes too much memory")
		return nil
	}
	return make([]T, n)
}

func (d *valueDecoder) text() string {
	b := d.bytes(d.count(1))
	if len(b) > 0 {
		d.usesText = true
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}

func (d *valueDecoder) plain(depth int) histories.Value {
	tag := d.byte()
	if tag >= tagSmall && tag <= tagSmall+smallMax-smallMin {
		return histories.Int(int64(tag) - tagSmall + smallMin)
	}
	if depth > maxDepth+1 {
		d.fail("nested too deeply")
		return histories.Value{}
	}
	switch tag {
	case tagNil:
		return histories.Value{}
	case tagFalse, tagTrue:
		return histories.Bool(tag == tagTrue)
	case tagInt:
		return histories.Int(d.int())
	case tagFloat:
		if b := d.bytes(8); b != nil {
			return histories.Float(math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
	case tagString:
		return histories.String(d.text())
	case tagKeyword:
		return histories.Keyword(d.text())
	case tagBytes:
		b := d.bytes(d.count(1))
		d.usesText = true
		return histories.Bytes(b)
	case tagList:
		return histories.List(d.all(depth)...)
	case tagSet:
		return histories.SetOf(d.all(depth)...)
	case tagInts:
		is := take(d, &d.ints, d.count(1))
		d.diffs(0, is)
		return histories.Ints(is...)
	case tagMap:
		entries := take(d, &d.entries, d.count(2))
		for i := range entries {
			if d.bad != "" {
				break
			}
			entries[i].Key = d.plain(depth + 1)
			entries[i].Value = d.plain(depth + 1)
		}
		return histories.MapOf(entries...)
	case tagTxn:
		mops := take(d, &d.mops, d.count(3))
		for i := range mops {
			if d.bad != "" {
				break
			}
			mops[i] = histories.Mop{Kind: d.mopKind(), Key: d.plain(depth + 1), Value: d.plain(depth + 1)}
		}
		return histories.Txn(mops...)
	case tagTuple:
		return d.tuple(d.plain(depth+1), d.plain(depth+1))
	case tagTagged:
		return histories.Tagged(d.text(), d.plain(depth+1))
	case tagCustom:
		return d.custom()
	}
	d.fail("unknown tag")
	return histories.Value{}
}

// tuple makes a tuple. Its two values stand in the slab, if there is one.
func (d *valueDecoder) tuple(key, value histories.Value) histories.Value {
	p := take(d, &d.vals, 2)
	if len(p) < 2 {
		return histories.Value{}
	}
	p[0], p[1] = key, value
	return histories.TupleOf((*[2]histories.Value)(p))
}

func (d *valueDecoder) mopKind() histories.MopKind {
	k := histories.MopKind(d.byte())
	if !k.Valid() {
		d.fail("unknown micro-operation")
	}
	return k
}

func (d *valueDecoder) all(depth int) []histories.Value {
	vs := take(d, &d.vals, d.count(1))
	for i := range vs {
		if d.bad != "" {
			break
		}
		vs[i] = d.plain(depth + 1)
	}
	return vs
}

// diffs decodes a run of integers, each as the difference to the one before.
func (d *valueDecoder) diffs(last int64, out []int64) {
	b, pos := d.b, d.pos
	for i := range out {
		if pos < len(b) && b[pos] < 0x80 {
			last += unzigzag(uint64(b[pos]))
			pos++
		} else {
			d.pos = pos
			last += unzigzag(d.slowUint())
			if pos = d.pos; d.bad != "" {
				return
			}
		}
		out[i] = last
	}
	d.pos = pos
}

func (d *valueDecoder) custom() histories.Value {
	name := d.text()
	data := d.bytes(d.count(1))
	if d.bad != "" {
		return histories.Value{}
	}
	if d.keepRaw {
		d.usesText = true
		return histories.Custom(rawCustom{name, data})
	}
	for i := range d.codecs {
		if d.codecs[i].name == name {
			v, err := d.codecs[i].decode(data)
			if err != nil {
				d.fail("codec " + name + ": " + err.Error())
			}
			return histories.Custom(v)
		}
	}
	d.usesText = true
	return histories.Tagged(name, histories.Bytes(data))
}

package store

import (
	"bytes"
	"unsafe"

	"github.com/jepsentest/go/histories"
)

// This file encodes the column of values of a chunk: what refers to earlier
// values. See valueEncoder for the idea and decode.go for the inverse.

// noKey marks a key that is not in the chunk's dictionary.
const noKey = ^uint32(0)

// add appends the value of the next operation. inv is the number in the chunk
// of the invocation that it completes, or negative.
func (e *valueEncoder) add(v histories.Value, inv int) {
	at := shapeRange{n: -1}
	if mops, ok := v.Txn(); ok {
		if inv < 0 || !e.like(mops, inv) {
			at = e.txn(mops)
		}
	} else {
		e.other(v)
	}
	e.shapeAt = append(e.shapeAt, at)
}

// other appends a value that is not a transaction.
func (e *valueEncoder) other(v histories.Value) {
	if key, w, ok := v.Tuple(); ok {
		e.vals += 2
		k, fresh := e.lookup(key)
		e.buf = append(e.buf, tagKeyTuple)
		e.putHead(0, key, k, fresh)
		if is, ok := e.intsOf(w); ok && k != noKey {
			e.buf = append(e.buf, tagChain)
			e.chain(&e.keys[k].chain, is)
			return
		}
		e.plain(w)
		return
	}
	if is, ok := e.intsOf(v); ok {
		e.buf = append(e.buf, tagChain)
		e.chain(&e.solo, is)
		return
	}
	e.plain(v)
}

// like appends a transaction that differs from that of operation inv, its
// invocation, at most in what was read, and reports whether it does.
func (e *valueEncoder) like(mops []histories.Mop, inv int) bool {
	at := e.shapeAt[inv]
	if int(at.n) != len(mops) { // also if there is no such transaction
		return false
	}
	shapes := e.shapes[at.start : at.start+at.n]
	for i := range mops {
		if !e.matches(&mops[i], &shapes[i]) {
			return false
		}
	}
	if d := len(e.shapeAt) - inv; d <= 0x80 {
		e.buf = append(e.buf, byte(tagLikeNear+d-1))
	} else {
		e.buf = appendUint(append(e.buf, tagLike), uint64(d))
	}
	for i := range mops {
		if s := &shapes[i]; !s.hasArg {
			e.coded(s.key, mops[i].Value)
		}
	}
	e.mops += len(mops)
	return true
}

// matches reports whether m may complete the micro-operation with shape s.
func (e *valueEncoder) matches(m *histories.Mop, s *shape) bool {
	if m.Kind != s.kind {
		return false
	}
	if key := &e.keys[s.key]; key.isInt {
		if num, ok := m.Key.Int(); !ok || num != key.num {
			return false
		}
	} else if k, fresh := e.find(m.Key); fresh || k != s.key {
		return false
	}
	if s.hasArg {
		arg, ok := m.Value.Int()
		return ok && arg == s.arg
	}
	return true
}

// txn appends a transaction, and returns where its shape is.
func (e *valueEncoder) txn(mops []histories.Mop) shapeRange {
	e.mops += len(mops)
	if n := len(mops); n < 15 {
		e.buf = append(e.buf, byte(tagColTxn+n))
	} else {
		e.buf = appendUint(append(e.buf, tagColTxn+15), uint64(n))
	}
	at := shapeRange{int32(len(e.shapes)), int32(len(mops))}
	for i := range mops {
		m := &mops[i]
		k, fresh := e.lookup(m.Key)
		head := byte(m.Kind) << 6
		s := shape{key: k, kind: m.Kind}
		if arg, ok := m.Value.Int(); ok && k != noKey {
			e.putHead(head|formInt<<4, m.Key, k, fresh)
			e.putSince(k, arg)
			s.arg, s.hasArg = arg, true
		} else if m.Value.IsNil() {
			e.putHead(head|formNil<<4, m.Key, k, fresh)
		} else {
			e.putHead(head|formCoded<<4, m.Key, k, fresh)
			e.coded(k, m.Value)
			at.n = -1
		}
		if k == noKey {
			at.n = -1
		}
		e.shapes = append(e.shapes, s)
	}
	return at
}

// coded appends a value under key k, which may be anything.
func (e *valueEncoder) coded(k uint32, v histories.Value) {
	if v.IsNil() {
		e.buf = append(e.buf, codeNil)
		return
	}
	if k != noKey {
		if i, ok := v.Int(); ok {
			e.buf = append(e.buf, codeInt)
			e.putSince(k, i)
			return
		}
		if is, ok := e.intsOf(v); ok {
			e.chain(&e.keys[k].chain, is)
			return
		}
	}
	e.buf = append(e.buf, codePlain)
	e.plain(v)
}

// putSince appends an integer as the difference to the last one under its key.
func (e *valueEncoder) putSince(k uint32, i int64) {
	last := &e.keys[k].last
	e.buf = appendZigzag(e.buf, i-*last)
	*last = i
}

// putHead appends the byte that introduces a micro-operation or a tuple, whose
// upper half is given, with the key.
func (e *valueEncoder) putHead(high byte, key histories.Value, k uint32, fresh bool) {
	switch {
	case k == noKey:
		e.buf = append(e.buf, high|keyInline)
		e.plain(key)
	case fresh:
		e.buf = append(e.buf, high|keyNew)
		e.plain(key)
	default:
		if back := len(e.keys) - 1 - int(k); back <= keyNearMax {
			e.buf = append(e.buf, high|byte(back))
		} else {
			e.buf = appendUint(append(e.buf, high|keyFar), uint64(back))
		}
	}
}

// chain appends the code of a list, relative to the chain c, which it extends
// or replaces.
func (e *valueEncoder) chain(c *int32, is []int64) {
	if *c >= 0 {
		list := e.chains[*c]
		m := min(len(list), len(is))
		if sameInts(list[:m], is[:m]) {
			e.buf = appendUint(e.buf, codeChain+zigzag(int64(len(is)-len(list))))
			if len(is) > m {
				var last int64
				if m > 0 {
					last = is[m-1]
				}
				e.putDiffs(last, is[m:])
				e.chained += len(is) - m
				e.chains[*c] = append(list, is[m:]...)
			}
			return
		}
	}
	*c = int32(e.live)
	if e.live == len(e.chains) {
		e.chains = append(e.chains, nil)
	}
	e.chains[e.live] = append(e.chains[e.live][:0], is...)
	e.live++
	e.chained += len(is)
	e.buf = appendUint(append(e.buf, codeFresh), uint64(len(is)))
	e.putDiffs(0, is)
}

// sameInts compares as memory, which is several times quicker than a loop.
func sameInts(a, b []int64) bool {
	x := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(a))), len(a)*8)
	y := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(b))), len(b)*8)
	return bytes.Equal(x, y)
}

// lookup finds key in the dictionary, or adds it. Keys of other kinds than
// integers, strings and keywords are never in it: noKey.
func (e *valueEncoder) lookup(key histories.Value) (k uint32, fresh bool) {
	k, fresh = e.find(key)
	if !fresh {
		return k, false
	}
	k = uint32(len(e.keys))
	num, isInt := key.Int()
	if isInt {
		e.intKeys[num] = k
	} else {
		e.strKeys[string(e.text)] = k
	}
	e.keys = append(e.keys, keyState{chain: -1, num: num, isInt: isInt})
	return k, true
}

// find finds key in the dictionary. If it could be there and is not, fresh is
// true and the name under which it would be is in text.
func (e *valueEncoder) find(key histories.Value) (k uint32, fresh bool) {
	if i, ok := key.Int(); ok {
		k, ok := e.intKeys[i]
		return k, !ok
	}
	if s, ok := key.Str(); ok {
		e.text = append(append(e.text[:0], 's'), s...)
	} else if s, ok := key.Keyword(); ok {
		e.text = append(append(e.text[:0], 'k'), s...)
	} else {
		return noKey, false
	}
	k, ok := e.strKeys[string(e.text)]
	return k, !ok
}

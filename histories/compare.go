package histories

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unsafe"
)

// Equal reports whether v and w are the same value: the same kind with equal
// contents. Lists of integers are equal however they are stored; maps and sets
// are equal whatever the order of their entries. An integer is never equal to
// a float. Floats are compared by their bits, so that a value equals itself.
func (v Value) Equal(w Value) bool {
	switch a := v.ref.(type) {
	case nil:
		return w.ref == nil
	case Kind:
		b, ok := w.ref.(Kind)
		return ok && a == b && v.num == w.num
	case intsRef:
		if b, ok := w.ref.(intsRef); ok {
			return v.num == w.num && (a == b ||
				slices.Equal(unsafe.Slice((*int64)(a), int(v.num)), unsafe.Slice((*int64)(b), int(w.num))))
		}
	}
	k := v.Kind()
	if k != w.Kind() || v.Len() != w.Len() {
		return false
	}
	switch k {
	case KindString:
		a, _ := v.Str()
		b, _ := w.Str()
		return a == b
	case KindKeyword:
		a, _ := v.Keyword()
		b, _ := w.Keyword()
		return a == b
	case KindBytes:
		a, _ := v.Bytes()
		b, _ := w.Bytes()
		return string(a) == string(b)
	case KindList, KindTuple:
		for i := range v.Len() {
			if !v.At(i).Equal(w.At(i)) {
				return false
			}
		}
		return true
	case KindTxn:
		a, _ := v.Txn()
		b, _ := w.Txn()
		return slices.EqualFunc(a, b, Mop.Equal)
	case KindMap, KindSet:
		// A canonical form makes unordered comparison linear in the size.
		return string(v.AppendKey(nil)) == string(w.AppendKey(nil))
	case KindTagged:
		at, av, _ := v.Tagged()
		bt, bv, _ := w.Tagged()
		return at == bt && av.Equal(bv)
	case KindCustom:
		a, _ := v.Custom()
		b, _ := w.Custom()
		return reflect.DeepEqual(a, b)
	}
	panic(fmt.Sprintf("histories: Equal does not know %v", k))
}

// AppendKey appends an encoding of v to b such that two values have the same
// encoding if and only if they are equal. It serves as the key of a Go map for
// values that are not integers. Custom values are encoded by their Go syntax.
func (v Value) AppendKey(b []byte) []byte {
	k := v.Kind()
	b = append(b, byte(k))
	switch k {
	case KindNil:
	case KindBool, KindInt, KindFloat:
		b = binary.BigEndian.AppendUint64(b, v.num)
	case KindString, KindKeyword, KindBytes:
		b = binary.AppendUvarint(b, v.num)
		b = append(b, v.raw()...)
	case KindList, KindTuple:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		for i := range v.Len() {
			b = v.At(i).AppendKey(b)
		}
	case KindMap, KindSet:
		parts := make([]string, 0, v.Len())
		if entries, ok := v.Map(); ok {
			for _, e := range entries {
				parts = append(parts, string(e.Value.AppendKey(e.Key.AppendKey(nil))))
			}
		} else {
			for i := range v.Len() {
				parts = append(parts, string(v.At(i).AppendKey(nil)))
			}
		}
		slices.Sort(parts)
		b = binary.AppendUvarint(b, uint64(len(parts)))
		for _, p := range parts {
			b = append(b, p...)
		}
	case KindTxn:
		mops, _ := v.Txn()
		b = binary.AppendUvarint(b, uint64(len(mops)))
		for i := range mops {
			b = append(b, byte(mops[i].Kind))
			b = mops[i].Key.AppendKey(b)
			b = mops[i].Value.AppendKey(b)
		}
	case KindTagged:
		t, w, _ := v.Tagged()
		b = binary.AppendUvarint(b, uint64(len(t)))
		b = append(b, t...)
		b = w.AppendKey(b)
	case KindCustom:
		c, _ := v.Custom()
		s := fmt.Sprintf("%#v", c)
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

// raw returns the bytes of a string, keyword or binary value.
func (v Value) raw() []byte {
	var p *byte
	switch r := v.ref.(type) {
	case stringRef:
		p = r
	case keywordRef:
		p = r
	case bytesRef:
		p = r
	}
	return unsafe.Slice(p, int(v.num))
}

// Clone returns a copy of v that shares no memory with it. A value taken from a
// decoded chunk keeps the memory of that chunk alive; its clone does not.
func (v Value) Clone() Value {
	switch v.Kind() {
	case KindString:
		return String(string(v.raw()))
	case KindKeyword:
		return Keyword(string(v.raw()))
	case KindBytes:
		return Bytes(slices.Clone(v.raw()))
	case KindList:
		if is, ok := v.Ints(); ok {
			return Ints(slices.Clone(is)...)
		}
		vs, _ := v.List()
		return List(cloneAll(vs)...)
	case KindSet:
		vs, _ := v.List()
		return SetOf(cloneAll(vs)...)
	case KindMap:
		es, _ := v.Map()
		out := make([]Entry, len(es))
		for i, e := range es {
			out[i] = Entry{e.Key.Clone(), e.Value.Clone()}
		}
		return MapOf(out...)
	case KindTxn:
		ms, _ := v.Txn()
		out := make([]Mop, len(ms))
		for i, m := range ms {
			out[i] = Mop{m.Kind, m.Key.Clone(), m.Value.Clone()}
		}
		return Txn(out...)
	case KindTuple:
		return Tuple(v.At(0).Clone(), v.At(1).Clone())
	case KindTagged:
		t, w, _ := v.Tagged()
		return Tagged(string([]byte(t)), w.Clone())
	}
	return v
}

func cloneAll(vs []Value) []Value {
	out := make([]Value, len(vs))
	for i := range vs {
		out[i] = vs[i].Clone()
	}
	return out
}

// String renders v in EDN, the notation of Jepsen's histories.
func (v Value) String() string { return string(v.AppendEDN(nil)) }

// GomegaString shows values in failure messages as people write them.
func (v Value) GomegaString() string { return v.String() }

// AppendEDN appends v in EDN to b. Lists and transactions are vectors, tuples
// vectors of two, binary data #bytes "base64", custom values #go "…".
func (v Value) AppendEDN(b []byte) []byte {
	switch v.Kind() {
	case KindNil:
		return append(b, "nil"...)
	case KindBool:
		return strconv.AppendBool(b, v.num != 0)
	case KindInt:
		return strconv.AppendInt(b, int64(v.num), 10)
	case KindFloat:
		return appendFloat(b, math.Float64frombits(v.num))
	case KindString:
		return appendQuoted(b, v.raw())
	case KindKeyword:
		return append(append(b, ':'), v.raw()...)
	case KindBytes:
		b = append(b, `#bytes "`...)
		b = base64.StdEncoding.AppendEncode(b, v.raw())
		return append(b, '"')
	case KindList, KindTuple:
		return v.appendSeq(b, "[", ']')
	case KindSet:
		return v.appendSeq(b, "#{", '}')
	case KindMap:
		b = append(b, '{')
		entries, _ := v.Map()
		for i := range entries {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = entries[i].Key.AppendEDN(b)
			b = append(b, ' ')
			b = entries[i].Value.AppendEDN(b)
		}
		return append(b, '}')
	case KindTxn:
		b = append(b, '[')
		mops, _ := v.Txn()
		for i := range mops {
			if i > 0 {
				b = append(b, ' ')
			}
			b = mops[i].appendEDN(b)
		}
		return append(b, ']')
	case KindTagged:
		return v.appendTagged(b)
	}
	c, _ := v.Custom()
	return appendQuoted(append(b, "#go "...), fmt.Appendf(nil, "%v", c))
}

// appendTagged writes a tagged value. Tags that stand for what EDN has a notation
// of its own for are written in that: symbols, characters, and numbers that fit
// into no integer or float.
func (v Value) appendTagged(b []byte) []byte {
	tag, w, _ := v.Tagged()
	if text, ok := w.Str(); ok {
		switch tag {
		case "symbol", "ratio":
			return append(b, text...)
		case "char":
			return append(append(b, '\\'), text...)
		case "bigint":
			return append(append(b, text...), 'N')
		case "bigdec":
			return append(append(b, text...), 'M')
		}
	}
	b = append(append(b, '#'), tag...)
	return w.AppendEDN(append(b, ' '))
}

func (v Value) appendSeq(b []byte, open string, end byte) []byte {
	b = append(b, open...)
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ' ')
		}
		b = v.At(i).AppendEDN(b)
	}
	return append(b, end)
}

// appendFloat writes a float so that it is read back as one, never as an integer.
func appendFloat(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, "##NaN"...)
	case math.IsInf(f, 1):
		return append(b, "##Inf"...)
	case math.IsInf(f, -1):
		return append(b, "##-Inf"...)
	}
	n := len(b)
	b = strconv.AppendFloat(b, f, 'g', -1, 64)
	for _, c := range b[n:] {
		if c == '.' || c == 'e' {
			return b
		}
	}
	return append(b, ".0"...)
}

func appendQuoted(b, s []byte) []byte {
	b = append(b, '"')
	for _, c := range s {
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\t':
			b = append(b, `\t`...)
		case '\r':
			b = append(b, `\r`...)
		default:
			if c < ' ' || c == 0x7f {
				b = fmt.Appendf(b, `\u%04x`, c)
				continue
			}
			b = append(b, c)
		}
	}
	return append(b, '"')
}

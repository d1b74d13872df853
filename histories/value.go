package histories

import (
	"fmt"
	"math"
	"unsafe"
)

// Kind says what a [Value] holds.
type Kind uint8

// The kinds of values. The numbers are part of the file format.
const (
	KindNil     Kind = iota
	KindBool         // true or false
	KindInt          // a signed integer of 64 bits
	KindFloat        // a float64
	KindString       // text
	KindKeyword      // a symbolic name, written :name
	KindBytes        // binary data
	KindList         // a sequence of values
	KindMap          // entries of key and value, in insertion order
	KindSet          // distinct values, in insertion order
	KindTxn          // a transaction: a sequence of micro-operations
	KindTuple        // a key and a value: an operation on one of many independent keys
	KindTagged       // a value with a tag, as in EDN's #inst "…"
	KindCustom       // a Go value of a type that the user registered
	numKinds
)

var kindNames = [numKinds]string{"nil", "bool", "int", "float", "string", "keyword", "bytes",
	"list", "map", "set", "txn", "tuple", "tagged", "custom"}

func (k Kind) String() string {
	if k < numKinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Value is the argument or result of an operation: a tagged union in the manner
// of log/slog.Value, of 24 bytes, copied freely. Making and reading a scalar
// never allocates; strings, lists and transactions share the memory of what
// they were made from, which must not be changed afterwards.
//
// The zero Value is nil. Values are compared with [Value.Equal], not with ==.
type Value struct {
	_ [0]func() // == would compare addresses
	// num holds the value of a scalar and the length of everything else.
	num uint64
	// ref is nil for the nil value; a Kind for scalars (a Kind in an interface
	// does not allocate); for everything else a pointer of a type of its own to
	// the first element.
	ref any
}

type (
	stringRef  *byte
	keywordRef *byte
	bytesRef   *byte
	listRef    *Value
	intsRef    *int64 // a list of integers, eight bytes an element
	mapRef     *Entry
	setRef     *Value
	txnRef     *Mop
	tupleRef   *[2]Value
)

type tagged struct {
	tag   string
	value Value
}

type custom struct{ v any }

// Entry is one entry of a map.
type Entry struct{ Key, Value Value }

// Nil is the nil value.
func Nil() Value { return Value{} }

// Bool makes a boolean.
func Bool(b bool) Value {
	var n uint64
	if b {
		n = 1
	}
	return Value{num: n, ref: KindBool}
}

// Int makes an integer.
func Int(i int64) Value { return Value{num: uint64(i), ref: KindInt} }

// Float makes a floating-point number.
func Float(f float64) Value { return Value{num: math.Float64bits(f), ref: KindFloat} }

// String makes a text.
func String(s string) Value {
	return Value{num: uint64(len(s)), ref: stringRef(unsafe.StringData(s))}
}

// Keyword makes a symbolic name; name is given without the colon.
func Keyword(name string) Value {
	return Value{num: uint64(len(name)), ref: keywordRef(unsafe.StringData(name))}
}

// Bytes makes a binary value, which shares the memory of b.
func Bytes(b []byte) Value {
	return Value{num: uint64(len(b)), ref: bytesRef(unsafe.SliceData(b))}
}

// List makes a list, which shares the memory of vs.
func List(vs ...Value) Value {
	return Value{num: uint64(len(vs)), ref: listRef(unsafe.SliceData(vs))}
}

// Ints makes a list of integers, which shares the memory of is. It is equal to
// the [List] of the same integers, and takes a third of the space.
func Ints(is ...int64) Value {
	return Value{num: uint64(len(is)), ref: intsRef(unsafe.SliceData(is))}
}

// MapOf makes a map. Keys should be distinct; the order is kept.
func MapOf(entries ...Entry) Value {
	return Value{num: uint64(len(entries)), ref: mapRef(unsafe.SliceData(entries))}
}

// SetOf makes a set. Elements should be distinct; the order is kept.
func SetOf(vs ...Value) Value {
	return Value{num: uint64(len(vs)), ref: setRef(unsafe.SliceData(vs))}
}

// Txn makes a transaction of micro-operations, which shares their memory.
func Txn(mops ...Mop) Value {
	return Value{num: uint64(len(mops)), ref: txnRef(unsafe.SliceData(mops))}
}

// Tuple makes a pair of the key of one of many independent objects and the
// value of an operation on it.
func Tuple(key, value Value) Value {
	return Value{num: 2, ref: tupleRef(&[2]Value{key, value})}
}

// TupleOf is [Tuple] without the allocation: it makes a pair of a key and a
// value that shares the memory of kv. It lets a reader place the tuples of a
// whole chunk in one piece of memory.
func TupleOf(kv *[2]Value) Value { return Value{num: 2, ref: tupleRef(kv)} }

// Tagged makes a value with a tag.
func Tagged(tag string, v Value) Value { return Value{ref: &tagged{tag, v}} }

// Custom wraps a Go value of the user's. To be stored, its type must have been
// registered with the codec that writes it.
func Custom(v any) Value { return Value{ref: custom{v}} }

// Kind returns what v holds.
func (v Value) Kind() Kind {
	switch r := v.ref.(type) {
	case nil:
		return KindNil
	case Kind:
		return r
	case txnRef:
		return KindTxn
	case intsRef, listRef:
		return KindList
	case stringRef:
		return KindString
	case keywordRef:
		return KindKeyword
	case bytesRef:
		return KindBytes
	case mapRef:
		return KindMap
	case setRef:
		return KindSet
	case tupleRef:
		return KindTuple
	case *tagged:
		return KindTagged
	case custom:
		return KindCustom
	}
	panic(fmt.Sprintf("histories: a Value refers to a %T, which no constructor makes", v.ref))
}

// IsNil reports whether v is the nil value.
func (v Value) IsNil() bool { return v.ref == nil }

// The accessors below return the zero value and false when v is of another kind.

// Bool returns the boolean in v.
func (v Value) Bool() (bool, bool) {
	k, ok := v.ref.(Kind)
	return v.num != 0, ok && k == KindBool
}

// Int returns the integer in v.
func (v Value) Int() (int64, bool) {
	if k, ok := v.ref.(Kind); ok && k == KindInt {
		return int64(v.num), true
	}
	return 0, false
}

// Float returns the number in v, converting an integer.
func (v Value) Float() (float64, bool) {
	switch k, _ := v.ref.(Kind); k {
	case KindFloat:
		return math.Float64frombits(v.num), true
	case KindInt:
		return float64(int64(v.num)), true
	}
	return 0, false
}

// Str returns the text in v.
func (v Value) Str() (string, bool) {
	p, ok := v.ref.(stringRef)
	if !ok {
		return "", false
	}
	return unsafe.String((*byte)(p), int(v.num)), true
}

// Keyword returns the name of the keyword in v, without the colon.
func (v Value) Keyword() (string, bool) {
	p, ok := v.ref.(keywordRef)
	if !ok {
		return "", false
	}
	return unsafe.String((*byte)(p), int(v.num)), true
}

// Bytes returns the binary data in v, which must not be changed.
func (v Value) Bytes() ([]byte, bool) {
	p, ok := v.ref.(bytesRef)
	if !ok {
		return nil, false
	}
	return unsafe.Slice((*byte)(p), int(v.num)), true
}

// Ints returns the elements of a list made by [Ints] (or decoded as such). A
// list made by [List] is not converted: use [Value.Len] and [Value.At] to read
// any list.
func (v Value) Ints() ([]int64, bool) {
	p, ok := v.ref.(intsRef)
	if !ok {
		return nil, false
	}
	return unsafe.Slice((*int64)(p), int(v.num)), true
}

// List returns the elements of a list or set. It allocates when the elements
// are stored as plain integers.
func (v Value) List() ([]Value, bool) {
	switch p := v.ref.(type) {
	case listRef:
		return unsafe.Slice((*Value)(p), int(v.num)), true
	case setRef:
		return unsafe.Slice((*Value)(p), int(v.num)), true
	case intsRef:
		is := unsafe.Slice((*int64)(p), int(v.num))
		vs := make([]Value, len(is))
		for i, n := range is {
			vs[i] = Int(n)
		}
		return vs, true
	}
	return nil, false
}

// Map returns the entries of a map.
func (v Value) Map() ([]Entry, bool) {
	p, ok := v.ref.(mapRef)
	if !ok {
		return nil, false
	}
	return unsafe.Slice((*Entry)(p), int(v.num)), true
}

// Lookup returns the value under key in a map. It takes time linear in its size.
func (v Value) Lookup(key Value) (Value, bool) {
	entries, _ := v.Map()
	for i := range entries {
		if entries[i].Key.Equal(key) {
			return entries[i].Value, true
		}
	}
	return Value{}, false
}

// Txn returns the micro-operations of a transaction, which must not be changed.
func (v Value) Txn() ([]Mop, bool) {
	p, ok := v.ref.(txnRef)
	if !ok {
		return nil, false
	}
	return unsafe.Slice((*Mop)(p), int(v.num)), true
}

// Tuple returns the key and the value of a tuple.
func (v Value) Tuple() (key, value Value, ok bool) {
	p, ok := v.ref.(tupleRef)
	if !ok {
		return Value{}, Value{}, false
	}
	return p[0], p[1], true
}

// Tagged returns the tag and the value of a tagged value.
func (v Value) Tagged() (string, Value, bool) {
	p, ok := v.ref.(*tagged)
	if !ok {
		return "", Value{}, false
	}
	return p.tag, p.value, true
}

// Custom returns the Go value that [Custom] wrapped.
func (v Value) Custom() (any, bool) {
	c, ok := v.ref.(custom)
	return c.v, ok
}

// Len returns the number of elements of a list, set, map or transaction, the
// number of bytes of a string, keyword or binary value, 2 for a tuple, and 0
// for everything else.
func (v Value) Len() int {
	switch v.ref.(type) {
	case nil, Kind, *tagged, custom:
		return 0
	}
	return int(v.num)
}

// At returns element i of a list, set or tuple. It panics if there is none, as
// indexing a slice does.
func (v Value) At(i int) Value {
	switch p := v.ref.(type) {
	case intsRef:
		return Int(unsafe.Slice((*int64)(p), int(v.num))[i])
	case listRef:
		return unsafe.Slice((*Value)(p), int(v.num))[i]
	case setRef:
		return unsafe.Slice((*Value)(p), int(v.num))[i]
	case tupleRef:
		return p[i]
	}
	panic(fmt.Sprintf("histories: At(%d) of a %v", i, v.Kind()))
}

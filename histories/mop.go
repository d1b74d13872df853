package histories

import "strconv"

// MopKind is what a micro-operation does.
type MopKind uint8

// The kinds of micro-operations. The numbers are part of the file format.
const (
	// MopRead reads a key. Its value is nil in an invocation and what was read
	// in a completion.
	MopRead MopKind = iota
	// MopAppend appends a value to the list under a key.
	MopAppend
	// MopWrite replaces the value under a key.
	MopWrite
	// MopPredicateRead reads every key whose value satisfies a predicate: the
	// key is the predicate, the value a map of what was found.
	MopPredicateRead
	numMopKinds
)

var mopNames = [numMopKinds]string{"r", "append", "w", "rp"}

// Valid reports whether k is one of the kinds above.
func (k MopKind) Valid() bool { return k < numMopKinds }

// String returns the name that Jepsen and Elle give it: r, append, w, rp.
func (k MopKind) String() string {
	if k.Valid() {
		return mopNames[k]
	}
	return "mop(" + strconv.Itoa(int(k)) + ")"
}

// ParseMopKind is the inverse of [MopKind.String].
func ParseMopKind(s string) (MopKind, bool) {
	for k, name := range mopNames {
		if s == name {
			return MopKind(k), true
		}
	}
	return 0, false
}

// Mop is a micro-operation: one step of a transaction.
type Mop struct {
	Kind  MopKind
	Key   Value
	Value Value
}

// Read makes a read of key, as an invocation has it.
func Read(key Value) Mop { return Mop{Kind: MopRead, Key: key} }

// ReadOf makes a read of key that returned v.
func ReadOf(key, v Value) Mop { return Mop{Kind: MopRead, Key: key, Value: v} }

// Append makes an append of v to the list under key.
func Append(key, v Value) Mop { return Mop{Kind: MopAppend, Key: key, Value: v} }

// Write makes a write of v to key.
func Write(key, v Value) Mop { return Mop{Kind: MopWrite, Key: key, Value: v} }

// IsWrite reports whether the micro-operation changes its key.
func (m *Mop) IsWrite() bool { return m.Kind == MopAppend || m.Kind == MopWrite }

// Equal reports whether two micro-operations are the same.
func (m Mop) Equal(n Mop) bool {
	return m.Kind == n.Kind && m.Key.Equal(n.Key) && m.Value.Equal(n.Value)
}

// String renders the micro-operation as [:append 5 1].
func (m Mop) String() string { return string(m.appendEDN(nil)) }

func (m *Mop) appendEDN(b []byte) []byte {
	b = append(b, '[', ':')
	b = append(b, m.Kind.String()...)
	b = append(b, ' ')
	b = m.Key.AppendEDN(b)
	b = append(b, ' ')
	b = m.Value.AppendEDN(b)
	return append(b, ']')
}

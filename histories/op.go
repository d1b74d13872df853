package histories

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Type says whether an entry begins an operation or, if it ends one, what is
// known about its effect.
type Type uint8

// The types of entries. The numbers are part of the file format.
const (
	Invoke Type = iota // the operation begins
	OK                 // the effect took place
	Fail               // the effect did not take place
	Info               // nobody knows
	numTypes
)

var typeNames = [numTypes]string{"invoke", "ok", "fail", "info"}

// NumTypes is the number of types; an array of this length can be indexed by Type.
const NumTypes = int(numTypes)

// Valid reports whether t is one of the four types.
func (t Type) Valid() bool { return t < numTypes }

func (t Type) String() string {
	if t.Valid() {
		return typeNames[t]
	}
	return "type(" + strconv.Itoa(int(t)) + ")"
}

// ParseType is the inverse of [Type.String].
func ParseType(s string) (Type, bool) {
	for t, name := range typeNames {
		if s == name {
			return Type(t), true
		}
	}
	return 0, false
}

// Phase marks the two entries of a nemesis operation, which are both of type
// [Info]. It is [NoPhase] for the operations of clients, and for histories from
// elsewhere that do not say.
type Phase uint8

// The phases. The numbers are part of the file format.
const (
	NoPhase Phase = iota
	Begin
	End
)

func (p Phase) String() string {
	switch p {
	case NoPhase:
		return ""
	case Begin:
		return "begin"
	case End:
		return "end"
	}
	return "phase(" + strconv.Itoa(int(p)) + ")"
}

// Process identifies a logical thread of operations. Clients have the numbers
// from 0 upwards. Negative numbers are named processes: [Nemesis] is the first,
// and further ones (several nemeses, an administrator) have the numbers below
// it. Their names belong to the history: see [History.ProcessName].
type Process int64

// Nemesis is the process that brings faults about.
const Nemesis Process = -1

// IsClient reports whether p is a client (and not the nemesis or another named process).
func (p Process) IsClient() bool { return p >= 0 }

func (p Process) String() string { return defaultNames.name(p) }

// Op is one entry of a history: an invocation or a completion.
type Op struct {
	// Index identifies the entry within its history: unique and strictly increasing.
	Index int64
	// Time is the time since the test began, on a monotonic clock. An
	// invocation carries the time for which it was scheduled, a completion the
	// time at which it arrived.
	Time time.Duration
	// Process is who does it.
	Process Process
	// F is what is being done: "read", "txn", "start-partition".
	F string
	// Value is the argument of an invocation and the result of a completion.
	Value Value
	// Error is why a completion is not OK. Nil otherwise.
	Error Value
	// Extra holds any further fields, in the order in which they were attached.
	Extra []Field
	// Type says whether this is an invocation or which kind of completion.
	Type Type
	// Phase marks the beginning and the end of an operation of the nemesis.
	Phase Phase
}

// Field is a named value attached to an operation.
type Field struct {
	Name  string
	Value Value
}

// IsInvocation reports whether the entry begins an operation: an invocation by
// a client, or the first of the two entries of a named process.
func (o *Op) IsInvocation() bool { return o.Type == Invoke || o.Phase == Begin }

// Field returns the extra field of this name, or the nil Value.
func (o *Op) Field(name string) Value {
	for i := range o.Extra {
		if o.Extra[i].Name == name {
			return o.Extra[i].Value
		}
	}
	return Value{}
}

// Equal reports whether two entries agree in every field. It takes time
// proportional to their size.
func (o Op) Equal(p Op) bool {
	if o.Index != p.Index || o.Time != p.Time || o.Process != p.Process || o.F != p.F ||
		o.Type != p.Type || o.Phase != p.Phase || len(o.Extra) != len(p.Extra) {
		return false
	}
	for i := range o.Extra {
		if o.Extra[i].Name != p.Extra[i].Name || !o.Extra[i].Value.Equal(p.Extra[i].Value) {
			return false
		}
	}
	return o.Value.Equal(p.Value) && o.Error.Equal(p.Error)
}

// String renders the entry on one line: index, time, process, type, f, value
// and, where there are any, error and extra fields.
func (o Op) String() string { return o.Format(o.Process.String()) }

// Format is like [Op.String], with the given name for the process.
func (o Op) Format(process string) string {
	var b strings.Builder
	typ := o.Type.String()
	if o.Phase != NoPhase {
		typ = o.Phase.String()
	}
	fmt.Fprintf(&b, "#%d %.6fs %s %s", o.Index, o.Time.Seconds(), process, typ)
	if o.F != "" {
		b.WriteString(" :" + o.F)
	}
	buf := make([]byte, 0, 64)
	b.WriteByte(' ')
	b.Write(o.Value.AppendEDN(buf))
	if !o.Error.IsNil() {
		b.WriteString(" error ")
		b.Write(o.Error.AppendEDN(buf))
	}
	for _, f := range o.Extra {
		b.WriteString(" " + f.Name + " ")
		b.Write(f.Value.AppendEDN(buf))
	}
	return b.String()
}

// GomegaString keeps failure messages to one line per operation.
func (o Op) GomegaString() string { return o.String() }

// Names are the names of the named processes of a history: Names[i] is the
// name of process -(i+1). The empty list means that there is only "nemesis".
type Names []string

var defaultNames Names

func (n Names) name(p Process) string {
	if p >= 0 {
		return strconv.FormatInt(int64(p), 10)
	}
	if i := -(int64(p) + 1); i < int64(len(n)) {
		return n[i]
	}
	if p == Nemesis {
		return "nemesis"
	}
	return "named-process-" + strconv.FormatInt(-int64(p), 10)
}

// Name returns the name of p: its number for clients.
func (n Names) Name(p Process) string { return n.name(p) }

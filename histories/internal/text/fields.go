package text

import (
	"slices"
	"time"

	"github.com/jepsentest/go/histories"
)

// Fields makes operations of the fields that a text gives them. It numbers the
// named processes in the order in which they appear.
type Fields struct {
	Names histories.Names
}

// Building is an operation that is being put together.
type Building struct {
	Op           histories.Op
	fields       *Fields
	typ, process bool // whether it has these, which it must
}

// Begin begins an operation without index and time.
func (f *Fields) Begin() Building {
	return Building{Op: histories.Op{Index: histories.Missing, Time: histories.Missing}, fields: f}
}

// Lacks returns the name of a mandatory field that has not been set, or "".
func (b *Building) Lacks() string {
	switch {
	case !b.typ:
		return "type"
	case !b.process:
		return "process"
	}
	return ""
}

// Set sets a field, and reports whether it can have that value.
func (b *Building) Set(name string, v histories.Value) (ok bool) {
	op := &b.Op
	switch name {
	case "index":
		if v.IsNil() {
			return true
		}
		op.Index, ok = v.Int()
		return ok && op.Index >= 0
	case "time":
		if v.IsNil() {
			return true
		}
		n, ok := v.Int()
		op.Time = time.Duration(max(n, histories.Missing))
		return ok
	case "type":
		word, _ := nameIn(v)
		op.Type, ok = histories.ParseType(word)
		b.typ = ok
		return ok
	case "process":
		op.Process, ok = b.fields.number(v)
		b.process = ok
		return ok
	case "f":
		op.F, ok = nameIn(v)
		return ok
	case "value":
		op.Value = v
	case "error":
		op.Error = v
	case "phase":
		switch word, _ := nameIn(v); word {
		case "begin":
			op.Phase = histories.Begin
		case "end":
			op.Phase = histories.End
		default:
			op.Extra = append(op.Extra, histories.Field{Name: name, Value: v})
		}
	default:
		op.Extra = append(op.Extra, histories.Field{Name: name, Value: v})
	}
	return true
}

// nameIn returns the text of a keyword, a string or a symbol; nil is the empty one.
func nameIn(v histories.Value) (string, bool) {
	if v.IsNil() {
		return "", true
	}
	if s, ok := v.Keyword(); ok {
		return s, true
	}
	if s, ok := v.Str(); ok {
		return s, true
	}
	if tag, w, ok := v.Tagged(); ok && tag == "symbol" {
		return w.Str()
	}
	return "", false
}

// number returns the number of a process.
func (f *Fields) number(v histories.Value) (histories.Process, bool) {
	if n, ok := v.Int(); ok {
		return histories.Process(n), n >= 0
	}
	name, ok := nameIn(v)
	if !ok || name == "" {
		return 0, false
	}
	if len(f.Names) == 0 && name != "nemesis" {
		f.Names = append(f.Names, "nemesis") // always the first
	}
	i := slices.Index(f.Names, name)
	if i < 0 {
		i = len(f.Names)
		f.Names = append(f.Names, name)
	}
	return histories.Nemesis - histories.Process(i), true
}

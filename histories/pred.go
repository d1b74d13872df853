package histories

import (
	"slices"
	"time"
)

// Pred is a condition on operations, for [Filter]. The predicates made here
// read only the columns they need and skip chunks that cannot match.
type Pred struct {
	// Columns are those that Match reads.
	Columns Columns
	// Match decides about operation i of a chunk. It must be pure.
	Match func(c *Chunk, i int) bool
	// Skip, if not nil, reports that no operation of a chunk with this
	// summary matches. It may be wrong only in saying false.
	Skip func(Summary) bool
}

// matchOp applies the predicate to a single operation.
func (p Pred) matchOp(op *Op) bool {
	c := Chunk{First: op.Index}
	c.Add(op)
	return p.Match(&c, 0)
}

// Where makes a predicate of any function of an operation. It reads all columns.
func Where(f func(Op) bool) Pred {
	return Pred{Columns: AllColumns, Match: func(c *Chunk, i int) bool { return f(c.Op(i)) }}
}

// Clients accepts the operations of clients.
func Clients() Pred {
	return Pred{
		Columns: ColProcess,
		Match:   func(c *Chunk, i int) bool { return c.Process[i].IsClient() },
		Skip:    func(s Summary) bool { return !s.MaxProc.IsClient() },
	}
}

// NamedProcesses accepts the operations of the nemesis and other named processes.
func NamedProcesses() Pred {
	return Pred{
		Columns: ColProcess,
		Match:   func(c *Chunk, i int) bool { return !c.Process[i].IsClient() },
		Skip:    func(s Summary) bool { return !s.Named },
	}
}

// ByType accepts the entries of the given types.
func ByType(types ...Type) Pred {
	var want [256]bool
	for _, t := range types {
		want[t] = true
	}
	return Pred{
		Columns: ColType,
		Match:   func(c *Chunk, i int) bool { return want[c.Type[i]] },
		Skip: func(s Summary) bool {
			return !slices.ContainsFunc(types, func(t Type) bool { return t.Valid() && s.Types[t] > 0 })
		},
	}
}

// ByF accepts the operations with one of the given f's.
func ByF(fs ...string) Pred {
	return Pred{
		Columns: ColF,
		Match:   func(c *Chunk, i int) bool { return slices.Contains(fs, c.FAt(i)) },
		Skip: func(s Summary) bool {
			return !slices.ContainsFunc(s.Fs, func(f string) bool { return slices.Contains(fs, f) })
		},
	}
}

// Between accepts the entries with a time in [from, to).
func Between(from, to time.Duration) Pred {
	return Pred{
		Columns: ColTime,
		Match:   func(c *Chunk, i int) bool { return c.Time[i] >= from && c.Time[i] < to },
		Skip:    func(s Summary) bool { return s.MaxTime < from || s.MinTime >= to },
	}
}

// And accepts what all of the given predicates accept.
func And(ps ...Pred) Pred {
	var cols Columns
	for _, p := range ps {
		cols |= p.Columns
	}
	return Pred{
		Columns: cols,
		Match: func(c *Chunk, i int) bool {
			return !slices.ContainsFunc(ps, func(p Pred) bool { return !p.Match(c, i) })
		},
		Skip: func(s Summary) bool {
			return slices.ContainsFunc(ps, func(p Pred) bool { return p.Skip != nil && p.Skip(s) })
		},
	}
}

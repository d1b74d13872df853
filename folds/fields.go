package folds

import (
	"strings"
	"time"

	"github.com/jepsentest/go/histories"
)

// Field says what the elements are that an [Agg] takes from a history: one for
// each operation.
type Field[T any] struct {
	_ struct{}

	// Name appears in the name of the fold.
	Name string
	// Columns are those that At and Tally read. 0 means all.
	Columns histories.Columns
	// At returns the element of operation i of a chunk.
	At func(c *histories.Chunk, i int) T
	// Tally, if not nil, calls yield for each distinct element of a chunk, with
	// how often it occurs. It is for fields with few different elements, and
	// makes aggregations that do not depend on order as fast as counting.
	Tally func(c *histories.Chunk, yield func(element T, n int64))
}

// FieldOf makes a field of any function of an operation. columns are the fields
// of the operation that it reads; the others may be missing. 0 means all.
func FieldOf[T any](columns histories.Columns, f func(histories.Op) T) Field[T] {
	return Field[T]{
		Name:    "operation",
		Columns: columns,
		At:      func(c *histories.Chunk, i int) T { return f(c.Op(i)) },
	}
}

// Ops are the operations themselves, with all their fields.
func Ops() Field[histories.Op] {
	return Field[histories.Op]{
		Name: "operation",
		At:   func(c *histories.Chunk, i int) histories.Op { return c.Op(i) },
	}
}

// Indices are the indices of the operations.
func Indices() Field[int64] {
	return Field[int64]{
		Name:    "index",
		Columns: histories.ColIndex,
		At:      func(c *histories.Chunk, i int) int64 { return c.IndexAt(i) },
	}
}

// Times are the times of the entries, since the test began.
func Times() Field[time.Duration] {
	return Field[time.Duration]{
		Name:    "time",
		Columns: histories.ColTime,
		At:      func(c *histories.Chunk, i int) time.Duration { return c.Time[i] },
	}
}

// Processes are the processes of the operations.
func Processes() Field[histories.Process] {
	return Field[histories.Process]{
		Name:    "process",
		Columns: histories.ColProcess,
		At:      func(c *histories.Chunk, i int) histories.Process { return c.Process[i] },
	}
}

// Values are the values of the operations.
func Values() Field[histories.Value] {
	return Field[histories.Value]{
		Name:    "value",
		Columns: histories.ColValue,
		At:      func(c *histories.Chunk, i int) histories.Value { return c.Value[i] },
	}
}

// Types are the types of the entries.
func Types() Field[histories.Type] {
	return Field[histories.Type]{
		Name:    "type",
		Columns: histories.ColType,
		At:      func(c *histories.Chunk, i int) histories.Type { return c.Type[i] },
		Tally: func(c *histories.Chunk, yield func(histories.Type, int64)) {
			var n [256]int64
			for _, t := range c.Type {
				n[t]++
			}
			for t, k := range n {
				if k > 0 {
					yield(histories.Type(t), k)
				}
			}
		},
	}
}

// Fs are the f's of the operations.
func Fs() Field[string] {
	return Field[string]{
		Name:    "f",
		Columns: histories.ColF,
		At:      func(c *histories.Chunk, i int) string { return c.FAt(i) },
		Tally: func(c *histories.Chunk, yield func(string, int64)) {
			n := make([]int64, len(c.Fs))
			for _, code := range c.F {
				n[code]++
			}
			for code, k := range n {
				if k > 0 {
					yield(c.Fs[code], k)
				}
			}
		},
	}
}

// FType is what is done, and what is known of it.
type FType struct {
	F    string
	Type histories.Type
}

// FTypes are the f and the type of each entry.
func FTypes() Field[FType] {
	return Field[FType]{
		Name:    "f and type",
		Columns: histories.ColF | histories.ColType,
		At:      func(c *histories.Chunk, i int) FType { return FType{c.FAt(i), c.Type[i]} },
		Tally: func(c *histories.Chunk, yield func(FType, int64)) {
			n := make([]int64, len(c.Fs)*histories.NumTypes)
			types := c.Type[:len(c.F)]
			for i, code := range c.F {
				n[int(code)*histories.NumTypes+int(types[i])]++
			}
			for k, times := range n {
				if times > 0 {
					yield(FType{c.Fs[k/histories.NumTypes], histories.Type(k % histories.NumTypes)}, times)
				}
			}
		},
	}
}

// detach returns a copy of a key that keeps no chunk in memory, where that is
// known how. It is called when a key is new, so it costs next to nothing.
func detach[K any](k K) K {
	switch p := any(&k).(type) {
	case *string:
		*p = strings.Clone(*p)
	case *FType:
		p.F = strings.Clone(p.F)
	}
	return k
}

package histories

import (
	"fmt"
	"slices"
	"time"
)

// ChunkSize is the number of operations after which a chunk is complete.
// Chunks may be shorter: on disk they are also closed by time.
const ChunkSize = 16384

// Columns is a set of columns of a chunk: which fields of its operations are
// present, or wanted.
type Columns uint16

// The columns.
const (
	ColIndex Columns = 1 << iota
	ColTime
	ColProcess
	ColType
	ColPhase
	ColF
	ColValue
	ColError
	ColExtra

	// AllColumns are all the fields of an [Op].
	AllColumns = 1<<iota - 1
)

// Has reports whether all of want are in c.
func (c Columns) Has(want Columns) bool { return c&want == want }

// Chunk is a run of consecutive operations, stored by column: element i of
// every column belongs to operation i. Columns that were not asked for are nil.
//
// A chunk that was read is shared: it must not be changed. Values, strings and
// slices taken from it stay valid, but each keeps the memory of the chunk's
// column alive; [Value.Clone] detaches one.
type Chunk struct {
	// Number is the position of the chunk among the chunks of its [Source].
	Number int
	// First is the position in the history of operation 0.
	First int64
	// Have says which columns are present.
	Have Columns

	// Index is nil if the indices are consecutive and start at First.
	Index   []int64
	Time    []time.Duration
	Process []Process
	Type    []Type
	// Phase is nil if no operation of the chunk has a phase.
	Phase []Phase
	// F holds, for each operation, the position of its f in Fs.
	F  []uint32
	Fs []string
	// Value, Error and Extra. Error and Extra are nil if no operation of the
	// chunk has one.
	Value []Value
	Error []Value
	Extra [][]Field

	n int
}

// Len returns the number of operations.
func (c *Chunk) Len() int { return c.n }

// SetLen sets the number of operations. It is for code that fills the columns
// of a chunk itself (a reader of a file), never for a chunk that was handed out.
func (c *Chunk) SetLen(n int) { c.n = n }

// IndexAt returns the index of operation i.
func (c *Chunk) IndexAt(i int) int64 {
	if c.Index == nil {
		return c.First + int64(i)
	}
	return c.Index[i]
}

// FAt returns the f of operation i.
func (c *Chunk) FAt(i int) string { return c.Fs[c.F[i]] }

// FCode returns the number by which the column F refers to f, and false if no
// operation of the chunk has it.
func (c *Chunk) FCode(f string) (uint32, bool) {
	i := slices.Index(c.Fs, f)
	return uint32(max(i, 0)), i >= 0
}

// PhaseAt returns the phase of operation i.
func (c *Chunk) PhaseAt(i int) Phase {
	if c.Phase == nil {
		return NoPhase
	}
	return c.Phase[i]
}

// Op puts operation i together from the columns that are present.
func (c *Chunk) Op(i int) Op {
	if uint(i) >= uint(c.n) {
		panic(fmt.Sprintf("histories: operation %d of a chunk of %d", i, c.n))
	}
	op := Op{Index: c.IndexAt(i)}
	if c.Time != nil {
		op.Time = c.Time[i]
	}
	if c.Process != nil {
		op.Process = c.Process[i]
	}
	if c.Type != nil {
		op.Type = c.Type[i]
	}
	if c.Phase != nil {
		op.Phase = c.Phase[i]
	}
	if c.F != nil {
		op.F = c.Fs[c.F[i]]
	}
	if c.Value != nil {
		op.Value = c.Value[i]
	}
	if c.Error != nil {
		op.Error = c.Error[i]
	}
	if c.Extra != nil {
		op.Extra = c.Extra[i]
	}
	return op
}

// Add appends an operation to a chunk that is being built. All columns are
// kept. The chunk's First must have been set.
func (c *Chunk) Add(op *Op) {
	c.Have = AllColumns
	if c.Index == nil && op.Index != c.First+int64(c.n) {
		c.Index = make([]int64, c.n, max(c.n+1, cap(c.Time)))
		for i := range c.Index {
			c.Index[i] = c.First + int64(i)
		}
	}
	if c.Index != nil {
		c.Index = append(c.Index, op.Index)
	}
	c.Time = append(c.Time, op.Time)
	c.Process = append(c.Process, op.Process)
	c.Type = append(c.Type, op.Type)
	c.F = append(c.F, c.internF(op.F))
	c.Value = append(c.Value, op.Value)
	c.Phase = addRare(c.Phase, op.Phase, op.Phase != NoPhase, c.n)
	c.Error = addRare(c.Error, op.Error, !op.Error.IsNil(), c.n)
	c.Extra = addRare(c.Extra, op.Extra, len(op.Extra) > 0, c.n)
	c.n++
}

// addRare appends to a column that stays nil until an operation needs it.
func addRare[T any](col []T, v T, needed bool, n int) []T {
	if col == nil {
		if !needed {
			return nil
		}
		col = make([]T, n, max(n+1, 64))
	}
	return append(col, v)
}

// internF finds or adds f among the chunk's. Tests use a handful of them, and
// mostly the same pointer, so a scan from the most recent is fast.
func (c *Chunk) internF(f string) uint32 {
	for i, g := range c.Fs {
		if f == g {
			return uint32(i)
		}
	}
	c.Fs = append(c.Fs, f)
	return uint32(len(c.Fs) - 1)
}

// pick returns a chunk of the operations at the given places, in that order.
func (c *Chunk) pick(sel []int32) *Chunk {
	out := &Chunk{Number: c.Number, First: c.First, Have: c.Have, Fs: c.Fs, n: len(sel)}
	out.Index = make([]int64, len(sel))
	for j, i := range sel {
		out.Index[j] = c.IndexAt(int(i))
	}
	out.Time = pickColumn(c.Time, sel)
	out.Process = pickColumn(c.Process, sel)
	out.Type = pickColumn(c.Type, sel)
	out.Phase = pickColumn(c.Phase, sel)
	out.F = pickColumn(c.F, sel)
	out.Value = pickColumn(c.Value, sel)
	out.Error = pickColumn(c.Error, sel)
	out.Extra = pickColumn(c.Extra, sel)
	return out
}

func pickColumn[T any](col []T, sel []int32) []T {
	if col == nil {
		return nil
	}
	out := make([]T, len(sel))
	for j, i := range sel {
		out[j] = col[i]
	}
	return out
}

// part returns the operations [from, to) of the chunk, sharing its columns.
func (c *Chunk) part(from, to int) *Chunk {
	if from == 0 && to == c.n {
		return c
	}
	out := &Chunk{Number: c.Number, First: c.First + int64(from), Have: c.Have, Fs: c.Fs, n: to - from}
	out.Index = partColumn(c.Index, from, to)
	out.Time = partColumn(c.Time, from, to)
	out.Process = partColumn(c.Process, from, to)
	out.Type = partColumn(c.Type, from, to)
	out.Phase = partColumn(c.Phase, from, to)
	out.F = partColumn(c.F, from, to)
	out.Value = partColumn(c.Value, from, to)
	out.Error = partColumn(c.Error, from, to)
	out.Extra = partColumn(c.Extra, from, to)
	return out
}

func partColumn[T any](col []T, from, to int) []T {
	if col == nil {
		return nil
	}
	return col[from:to:to]
}

// Summary describes the operations of a chunk, so that a reader who looks for
// something can tell that it is not there without reading the chunk.
type Summary struct {
	Ops     int           // number of operations
	Types   [NumTypes]int // how many of each type
	MinTime time.Duration // earliest and latest time
	MaxTime time.Duration //
	Fs      []string      // the f's that occur, in order of appearance
	Named   bool          // whether the nemesis or another named process acts
	MinProc Process       // smallest and largest process
	MaxProc Process       //
}

// Summarize computes the summary of a chunk that has the columns Time, Process,
// Type and F.
func Summarize(c *Chunk) Summary {
	s := Summary{Ops: c.n, Fs: c.Fs}
	for _, t := range c.Type {
		s.Types[t&3]++
	}
	if c.n > 0 {
		s.MinTime, s.MaxTime = slices.Min(c.Time), slices.Max(c.Time)
		s.MinProc, s.MaxProc = slices.Min(c.Process), slices.Max(c.Process)
		s.Named = s.MinProc < 0
	}
	return s
}

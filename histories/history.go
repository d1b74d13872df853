package histories

import (
	"fmt"
	"iter"
	"sync"
)

// History is a sequence of operations: all that a [Source] holds, or a view of
// it. Histories are made by [New], [Builder], [FromSource] and the functions
// that make views; no other package implements the interface.
//
// Positions count from 0 within this history. Indices identify operations and
// are the same in every view. All methods may be called by several goroutines
// at once. Reading can fail, when the history is on disk; the error says where.
type History interface {
	// Len returns the number of operations. For a filtered view the first
	// call reads the history.
	Len() (int64, error)
	// Nth returns the operation at position pos: in constant time (plus one
	// chunk to decode, if it is on disk and not cached), in logarithmic time
	// in a filtered view.
	Nth(pos int64) (Op, error)
	// Get returns the operation with the given index, and false if this
	// history has none.
	Get(index int64) (Op, bool, error)
	// All iterates over the operations in order. After an error, which comes
	// with a zero Op, the iteration ends.
	All() iter.Seq2[Op, error]
	// Completion returns the entry that completes an invocation, and false if
	// there is none in this history.
	Completion(invocation Op) (Op, bool, error)
	// Invocation returns the entry that began what the given one completes,
	// and false if there is none in this history.
	Invocation(completion Op) (Op, bool, error)
	// Dense reports whether the index of every operation is its position.
	Dense() bool
	// ProcessName returns the name of a process: its number for clients.
	ProcessName(p Process) string

	// Source returns what the history is read from. Views of one history have
	// the same Source, and so share its cache and its passes.
	Source() Source
	// Needs returns the columns that must be read from the Source to know the
	// columns want of this view.
	Needs(want Columns) Columns
	// Apply returns what this view has of a chunk of the Source, which was
	// read with Needs' columns: possibly the same chunk, possibly an empty one.
	Apply(c *Chunk) (*Chunk, error)
	// Skips reports whether a chunk with this summary surely contributes
	// nothing to the view.
	Skips(s Summary) bool

	// Attached returns the one thing that is attached to this history and all
	// views of it; the first call has it made. Package folds keeps there the
	// folder in which folds over the history and its views meet: so it lives
	// exactly as long as the history, and no registry has to know of either.
	Attached(make func() any) any

	// span returns which positions of this view chunk i of the source holds: [start, end).
	span(i int) (start, end int64, err error)
}

// FromSource makes the history of everything in s. Call it once for a source:
// what belongs to a history and its views (see [History.Attached]) is not shared
// between two histories of one source.
func FromSource(s Source) History { return &base{src: s} }

type base struct {
	src Source

	once     sync.Once
	attached any
}

func (b *base) Attached(make func() any) any {
	b.once.Do(func() { b.attached = make() })
	return b.attached
}

func (b *base) Len() (int64, error) { return SourceLen(b.src), nil }

func (b *base) Nth(pos int64) (Op, error) {
	if n := SourceLen(b.src); pos < 0 || pos >= n {
		return Op{}, fmt.Errorf("read operation %d of %d: %w", pos, n, ErrOutOfRange)
	}
	if r, ok := b.src.(OpReader); ok {
		return r.ReadOp(pos)
	}
	c, err := b.src.ReadChunk(b.src.Locate(pos), AllColumns)
	if err != nil {
		return Op{}, err
	}
	return c.Op(int(pos - c.First)), nil
}

func (b *base) Get(index int64) (Op, bool, error) {
	pos, ok, err := b.src.Find(index)
	if err != nil || !ok {
		return Op{}, false, err
	}
	op, err := b.Nth(pos)
	return op, err == nil, err
}

func (b *base) All() iter.Seq2[Op, error]          { return all(b) }
func (b *base) Completion(op Op) (Op, bool, error) { return b.partner(op, true) }
func (b *base) Invocation(op Op) (Op, bool, error) { return b.partner(op, false) }
func (b *base) Dense() bool                        { return b.src.Dense() }
func (b *base) ProcessName(p Process) string       { return b.src.Names().Name(p) }
func (b *base) Source() Source                     { return b.src }
func (b *base) Needs(want Columns) Columns         { return want }
func (b *base) Apply(c *Chunk) (*Chunk, error)     { return c, nil }
func (b *base) Skips(Summary) bool                 { return false }

// partner returns the other entry of op if it comes later (a completion) or
// earlier (an invocation).
func (b *base) partner(op Op, later bool) (Op, bool, error) {
	pos, ok, err := b.src.Find(op.Index)
	if err != nil || !ok {
		return Op{}, false, err
	}
	p, ok, err := b.src.Partner(pos)
	if err != nil || !ok || (p > pos) != later {
		return Op{}, false, err
	}
	out, err := b.Nth(p)
	return out, err == nil, err
}

func (b *base) span(i int) (int64, int64, error) {
	first, n := b.src.Span(i)
	return first, first + int64(n), nil
}

// Chunks iterates over what a history has of each chunk of its source, with at
// least the given columns. Chunks of which it has nothing are left out; those
// whose summary says so are not read.
func Chunks(h History, cols Columns) iter.Seq2[*Chunk, error] {
	return func(yield func(*Chunk, error) bool) {
		src, need := h.Source(), h.Needs(cols)
		for i := range src.NumChunks() {
			c, err := ViewChunk(h, i, need)
			if err != nil {
				yield(nil, err)
				return
			}
			if c != nil && c.Len() > 0 && !yield(c, nil) {
				return
			}
		}
	}
}

// ViewChunk returns what h has of chunk i of its source, which it reads with
// the columns need (see [History.Needs]). It returns nil if the summary shows
// that h has nothing of it.
func ViewChunk(h History, i int, need Columns) (*Chunk, error) {
	if may, err := MayHold(h, i); err != nil || !may {
		return nil, err
	}
	c, err := h.Source().ReadChunk(i, need)
	if err != nil {
		return nil, err
	}
	return h.Apply(c)
}

// IsView reports whether h shows less than, or something else than, what its
// source holds.
func IsView(h History) bool {
	_, whole := h.(*base)
	return !whole
}

// MayHold reports whether h may have something of chunk i of its source, as far
// as that is known without reading the chunk: from its summary, and from where
// it lies if h is a slice.
func MayHold(h History, i int) (bool, error) {
	for v := h; ; {
		switch p := v.(type) {
		case *base:
			if v == h {
				return true, nil
			}
			sum, err := p.src.Summary(i)
			return err == nil && !h.Skips(sum), err
		case *mapped:
			v = p.History
		case *filtered:
			v = p.parent
		case *sliced:
			// Only where it takes constant time: below a filter, positions
			// have to be counted first.
			if below, ok := p.parent.(*base); ok {
				start, end, err := below.span(i)
				if err != nil || max(p.from, start) >= min(p.to, end) {
					return false, err
				}
				if v == h {
					return true, nil
				}
			}
			v = p.parent
		}
	}
}

func all(h History) iter.Seq2[Op, error] {
	return func(yield func(Op, error) bool) {
		for c, err := range Chunks(h, AllColumns) {
			if err != nil {
				yield(Op{}, err)
				return
			}
			for i := range c.Len() {
				if !yield(c.Op(i), nil) {
					return
				}
			}
		}
	}
}

// Collect reads a whole history into a slice.
func Collect(h History) ([]Op, error) {
	var ops []Op
	for op, err := range h.All() {
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}

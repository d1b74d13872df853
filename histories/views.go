package histories

import (
	"fmt"
	"iter"
	"math/bits"
	"sort"
	"sync"
)

// Map returns a view in which every operation is replaced by f of it. f must
// be pure, keep Index, and keep distinct processes distinct; it is called anew
// on every access. The view takes constant time to make, and finds an operation
// as fast as h does. f may read any field, so a fold over the view decodes all.
func Map(h History, f func(Op) Op) History { return &mapped{h, f} }

type mapped struct {
	History // the parent
	f       func(Op) Op
}

func (m *mapped) Nth(pos int64) (Op, error) {
	op, err := m.History.Nth(pos)
	if err != nil {
		return Op{}, err
	}
	return m.f(op), nil
}

func (m *mapped) Get(index int64) (Op, bool, error) {
	return m.mapIf(m.History.Get(index))
}

func (m *mapped) Completion(op Op) (Op, bool, error) { return m.mapIf(m.History.Completion(op)) }
func (m *mapped) Invocation(op Op) (Op, bool, error) { return m.mapIf(m.History.Invocation(op)) }

func (m *mapped) mapIf(op Op, ok bool, err error) (Op, bool, error) {
	if !ok || err != nil {
		return Op{}, false, err
	}
	return m.f(op), true, nil
}

func (m *mapped) All() iter.Seq2[Op, error] { return all(m) }

func (m *mapped) Needs(Columns) Columns { return AllColumns }

func (m *mapped) Apply(c *Chunk) (*Chunk, error) {
	c, err := m.History.Apply(c)
	if err != nil || c == nil {
		return c, err
	}
	out := &Chunk{Number: c.Number, First: c.First}
	for i := range c.Len() {
		op := m.f(c.Op(i))
		out.Add(&op)
	}
	return out, nil
}

// picks says what a filter accepts: of chunk i of the source it accepts those
// operations of its parent whose bit is set in marks[i], and they are the
// positions [starts[i], starts[i+1]) of the view. It takes a bit an operation.
type picks struct {
	starts []int64
	marks  [][]uint64
}

func (p *picks) len() int64 { return p.starts[len(p.starts)-1] }

// chunk returns the number of the chunk that holds position pos.
func (p *picks) chunk(pos int64) int {
	return sort.Search(len(p.marks), func(i int) bool { return p.starts[i+1] > pos })
}

// Filter returns the view of the operations that p accepts. It takes constant
// time to make. Its length and the positions in it are found by one pass over
// h, made when they are first asked for; after that Nth takes logarithmic time.
// An operation's completion or invocation is found only if p accepts it too.
func Filter(h History, p Pred) History { return &filtered{parent: h, pred: p} }

type filtered struct {
	parent History
	pred   Pred

	mu    sync.Mutex
	index *picks // what has been counted so far
}

func (f *filtered) Dense() bool                  { return false }
func (f *filtered) ProcessName(p Process) string { return f.parent.ProcessName(p) }
func (f *filtered) Source() Source               { return f.parent.Source() }
func (f *filtered) Attached(m func() any) any    { return f.parent.Attached(m) }
func (f *filtered) All() iter.Seq2[Op, error]    { return all(f) }

func (f *filtered) Needs(want Columns) Columns { return f.parent.Needs(want | f.pred.Columns) }

func (f *filtered) Skips(s Summary) bool {
	return f.parent.Skips(s) || f.pred.Skip != nil && !f.mapsBelow() && f.pred.Skip(s)
}

// mapsBelow reports whether an operation may look different here than in the
// source, which is what summaries describe.
func (f *filtered) mapsBelow() bool {
	for h := f.parent; ; {
		switch p := h.(type) {
		case *mapped:
			return true
		case *filtered:
			h = p.parent
		case *sliced:
			h = p.parent
		default:
			return false
		}
	}
}

func (f *filtered) Apply(c *Chunk) (*Chunk, error) {
	c, err := f.parent.Apply(c)
	if err != nil || c == nil || c.Len() == 0 {
		return c, err
	}
	var sel []int32
	for i := range c.Len() {
		if f.pred.Match(c, i) {
			sel = append(sel, int32(i))
		}
	}
	if len(sel) == c.Len() {
		return c, nil
	}
	return c.pick(sel), nil
}

func (f *filtered) Get(index int64) (Op, bool, error) { return f.accept(f.parent.Get(index)) }

func (f *filtered) Completion(op Op) (Op, bool, error) {
	return f.partner(op, f.parent.Completion)
}

func (f *filtered) Invocation(op Op) (Op, bool, error) {
	return f.partner(op, f.parent.Invocation)
}

func (f *filtered) partner(op Op, find func(Op) (Op, bool, error)) (Op, bool, error) {
	if _, ok, err := f.Get(op.Index); !ok || err != nil {
		return Op{}, false, err
	}
	return f.accept(find(op))
}

func (f *filtered) accept(op Op, ok bool, err error) (Op, bool, error) {
	if err != nil || !ok || !f.pred.matchOp(&op) {
		return Op{}, false, err
	}
	return op, true, nil
}

func (f *filtered) Len() (int64, error) {
	p, err := f.picks()
	if err != nil {
		return 0, err
	}
	return p.len(), nil
}

func (f *filtered) Nth(pos int64) (Op, error) {
	p, err := f.picks()
	if err != nil {
		return Op{}, err
	}
	if pos < 0 || pos >= p.len() {
		return Op{}, fmt.Errorf("read operation %d of %d: %w", pos, p.len(), ErrOutOfRange)
	}
	i := p.chunk(pos)
	start, _, err := f.parent.span(i)
	if err != nil {
		return Op{}, err
	}
	return f.parent.Nth(start + selectBit(p.marks[i], pos-p.starts[i]))
}

func (f *filtered) span(i int) (int64, int64, error) {
	p, err := f.picks()
	if err != nil {
		return 0, 0, err
	}
	return p.starts[i], p.starts[i+1], nil
}

// selectBit returns the position of the n-th set bit, counting from 0.
func selectBit(words []uint64, n int64) int64 {
	for w, word := range words {
		ones := int64(bits.OnesCount64(word))
		if n < ones {
			for range n {
				word &= word - 1
			}
			return int64(w)*64 + int64(bits.TrailingZeros64(word))
		}
		n -= ones
	}
	panic("histories: a filtered view counts more operations than it marks")
}

// picks counts what the filter accepts of each chunk, continuing where it left
// off when the source has grown. What was handed out is never changed: appending
// writes only beyond the length of the slices that others hold.
func (f *filtered) picks() (*picks, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.Source().NumChunks()
	if f.index != nil && len(f.index.marks) >= n {
		return f.index, nil
	}
	out := picks{starts: []int64{0}}
	if f.index != nil {
		out = *f.index
	}
	need := f.parent.Needs(f.pred.Columns)
	for i := len(out.marks); i < n; i++ {
		marks, count, err := f.mark(i, need)
		if err != nil {
			return nil, err
		}
		out.marks = append(out.marks, marks)
		out.starts = append(out.starts, out.starts[i]+count)
	}
	f.index = &out
	return f.index, nil
}

func (f *filtered) mark(i int, need Columns) (marks []uint64, count int64, err error) {
	sum, err := f.Source().Summary(i)
	if err != nil || f.Skips(sum) {
		return nil, 0, err
	}
	c, err := ViewChunk(f.parent, i, need)
	if err != nil || c == nil {
		return nil, 0, err
	}
	marks = make([]uint64, (c.Len()+63)/64)
	for j := range c.Len() {
		if f.pred.Match(c, j) {
			marks[j/64] |= 1 << (j % 64)
			count++
		}
	}
	return marks, count, nil
}

// Slice returns the view of the positions [from, to) of h. A to beyond the end
// means the end. The view takes constant time to make and finds an operation as
// fast as h does.
func Slice(h History, from, to int64) History {
	from = max(from, 0)
	return &sliced{parent: h, from: from, to: max(from, to)}
}

type sliced struct {
	parent   History
	from, to int64
}

func (s *sliced) ProcessName(p Process) string { return s.parent.ProcessName(p) }
func (s *sliced) Source() Source               { return s.parent.Source() }
func (s *sliced) Attached(m func() any) any    { return s.parent.Attached(m) }
func (s *sliced) Needs(want Columns) Columns   { return s.parent.Needs(want) }
func (s *sliced) Skips(sum Summary) bool       { return s.parent.Skips(sum) }
func (s *sliced) All() iter.Seq2[Op, error]    { return all(s) }
func (s *sliced) Dense() bool                  { return s.from == 0 && s.parent.Dense() }

// bounds returns the slice's ends, cut off at the end of the parent.
func (s *sliced) bounds() (from, to int64, err error) {
	n, err := s.parent.Len()
	return min(s.from, n), min(s.to, n), err
}

func (s *sliced) Len() (int64, error) {
	from, to, err := s.bounds()
	return to - from, err
}

func (s *sliced) Nth(pos int64) (Op, error) {
	n, err := s.Len()
	if err != nil {
		return Op{}, err
	}
	if pos < 0 || pos >= n {
		return Op{}, fmt.Errorf("read operation %d of %d: %w", pos, n, ErrOutOfRange)
	}
	return s.parent.Nth(s.from + pos)
}

func (s *sliced) Get(index int64) (Op, bool, error) { return s.within(s.parent.Get(index)) }

func (s *sliced) Completion(op Op) (Op, bool, error) { return s.within(s.parent.Completion(op)) }
func (s *sliced) Invocation(op Op) (Op, bool, error) { return s.within(s.parent.Invocation(op)) }

// within passes op on if it lies inside the slice: its index lies between those
// of the first and the last operation, because indices increase.
func (s *sliced) within(op Op, ok bool, err error) (Op, bool, error) {
	if err != nil || !ok {
		return Op{}, false, err
	}
	from, to, err := s.bounds()
	if err != nil || from == to {
		return Op{}, false, err
	}
	first, err := s.parent.Nth(from)
	if err != nil {
		return Op{}, false, err
	}
	last, err := s.parent.Nth(to - 1)
	if err != nil || op.Index < first.Index || op.Index > last.Index {
		return Op{}, false, err
	}
	return op, true, nil
}

func (s *sliced) Apply(c *Chunk) (*Chunk, error) {
	start, end, err := s.parent.span(c.Number)
	if err != nil {
		return nil, err
	}
	from, to := max(s.from, start), min(s.to, end)
	if from >= to {
		return &Chunk{Number: c.Number, Have: c.Have}, nil
	}
	c, err = s.parent.Apply(c)
	if err != nil || c == nil {
		return c, err
	}
	return c.part(int(from-start), int(to-start)), nil
}

func (s *sliced) span(i int) (int64, int64, error) {
	start, end, err := s.parent.span(i)
	if err != nil {
		return 0, 0, err
	}
	from, to, err := s.bounds()
	if err != nil {
		return 0, 0, err
	}
	clamp := func(pos int64) int64 { return min(max(pos, from), to) - from }
	return clamp(start), clamp(end), nil
}

package histories

import (
	"fmt"
	"sort"
	"sync"
	"time"
)

// Source is what a history is read from: its chunks, by number. It is
// implemented by the histories in memory (see [New]) and by the block log
// (package store). A Source may grow while it is read; what has been handed out
// never changes. All methods may be called by several goroutines at once.
type Source interface {
	// NumChunks returns the number of complete chunks. It never decreases.
	NumChunks() int
	// Span returns the position of the first operation of chunk i and the
	// number of its operations, without reading it.
	Span(i int) (first int64, n int)
	// Locate returns the number of the chunk that holds position pos, which
	// must lie within the history. It takes logarithmic time at most.
	Locate(pos int64) int
	// ReadChunk returns chunk i with at least the given columns.
	ReadChunk(i int, cols Columns) (*Chunk, error)
	// Summary describes chunk i without reading it.
	Summary(i int) (Summary, error)
	// Dense reports whether the index of every operation is its position.
	Dense() bool
	// Find returns the position of the operation with the given index.
	Find(index int64) (pos int64, ok bool, err error)
	// Partner returns the position of the other entry of the operation at pos:
	// its completion or its invocation. ok is false if there is none.
	Partner(pos int64) (partner int64, ok bool, err error)
	// Names returns the names of the named processes.
	Names() Names
}

// OpReader is implemented by a Source that can read one operation in less time
// than it takes to read the whole of its chunk. pos must lie within the history.
type OpReader interface {
	ReadOp(pos int64) (Op, error)
}

// SourceLen returns the number of operations in the complete chunks of s.
func SourceLen(s Source) int64 {
	n := s.NumChunks()
	if n == 0 {
		return 0
	}
	first, ops := s.Span(n - 1)
	return first + int64(ops)
}

// Missing marks an index or a time that an imported operation does not have.
const Missing = -1

// Numberer gives the operations of an imported history, which arrive one after
// the other, the indices and times that they lack. The zero Numberer is ready
// for the first one.
type Numberer struct {
	n    int64
	last int64 // the index of the operation before
	// Whether operations lack indices and times: decided by the first one, and
	// the same for all.
	noIndex, noTime bool
}

// Next completes the next operation. If the first operation's Index was
// [Missing], so must be all others', and positions become the indices;
// otherwise indices must increase strictly. The same holds for Time, except
// that times are not compared, and missing ones become one nanosecond per
// entry. The error is an [*OpError], after which the operation does not count.
func (n *Numberer) Next(op *Op) error {
	given := *op
	if n.n == 0 {
		n.noIndex, n.noTime = op.Index == Missing, op.Time == Missing
	}
	switch {
	case n.noIndex != (op.Index == Missing):
		return &OpError{n.n, given, fmt.Errorf("%w: some operations have an index and others do not", ErrIndex)}
	case n.noIndex:
		op.Index = n.n
	case n.n > 0 && op.Index <= n.last || op.Index < 0:
		return &OpError{n.n, given, fmt.Errorf("%w: %d follows %d", ErrIndex, op.Index, n.last)}
	}
	switch {
	case n.noTime != (op.Time == Missing):
		return &OpError{n.n, given, fmt.Errorf("%w: some operations have a time and others do not", ErrTime)}
	case n.noTime:
		op.Time = time.Duration(n.n)
	}
	if !op.Type.Valid() {
		return &OpError{n.n, given, fmt.Errorf("unknown type %v", op.Type)}
	}
	n.last = op.Index
	n.n++
	return nil
}

// Builder collects operations in memory. It is the way to make a history from a
// stream; [New] is shorter for a few. The zero Builder is ready for use.
type Builder struct {
	// Names are the names of the named processes.
	Names Names
	// ChunkSize is the number of operations per chunk; 0 means [ChunkSize].
	ChunkSize int

	number Numberer
	chunks []*Chunk
	n      int64
	sparse bool
}

// Add appends an operation, to which it gives an index and a time if it has
// none, as a [Numberer] does. After an error it has not been added.
func (b *Builder) Add(op Op) error {
	if err := b.number.Next(&op); err != nil {
		return err
	}
	b.add(&op)
	return nil
}

func (b *Builder) add(op *Op) {
	size := b.ChunkSize
	if size <= 0 {
		size = ChunkSize
	}
	k := len(b.chunks)
	if k == 0 || b.chunks[k-1].Len() >= size {
		b.chunks = append(b.chunks, &Chunk{Number: k, First: b.n})
		k++
	}
	b.chunks[k-1].Add(op)
	b.sparse = b.sparse || op.Index != b.n
	b.n++
}

// History returns the history of what has been added. The Builder must not be
// used afterwards.
func (b *Builder) History() History {
	return FromSource(&memory{chunks: b.chunks, n: b.n, dense: !b.sparse, names: b.Names})
}

// New makes a history in memory of the given operations, and checks it. If all
// indices are zero, or all are [Missing], positions become the indices;
// otherwise they must increase strictly. If all times are zero, or all are
// Missing, they become one nanosecond per entry. Entries must pair up; an
// operation that never completes is no error. The error is an [*OpError] that
// says which operation is wrong.
func New(ops ...Op) (History, error) {
	noIndex, noTime := len(ops) > 1, len(ops) > 1
	for i := range ops {
		noIndex = noIndex && ops[i].Index == 0
		noTime = noTime && ops[i].Time == 0
	}
	var b Builder
	for _, op := range ops {
		if noIndex {
			op.Index = Missing
		}
		if noTime {
			op.Time = Missing
		}
		if err := b.Add(op); err != nil {
			return nil, err
		}
	}
	h := b.History()
	if err := Check(h.Source()); err != nil {
		return nil, err
	}
	return h, nil
}

// Must returns h and panics if err is not nil. It is for histories in tests and
// examples: histories.Must(histories.New(…)).
func Must(h History, err error) History {
	if err != nil {
		panic(err)
	}
	return h
}

// memory is a Source in memory.
type memory struct {
	chunks []*Chunk
	n      int64
	dense  bool
	names  Names

	pairOnce sync.Once
	pairs    []int64 // by position; noPartner where there is none
	pairErr  error

	sumMu sync.Mutex
	sums  []Summary
}

func (m *memory) NumChunks() int { return len(m.chunks) }
func (m *memory) Dense() bool    { return m.dense }
func (m *memory) Names() Names   { return m.names }

func (m *memory) Span(i int) (int64, int) { return m.chunks[i].First, m.chunks[i].Len() }

func (m *memory) ReadChunk(i int, _ Columns) (*Chunk, error) { return m.chunks[i], nil }

func (m *memory) Locate(pos int64) int {
	return sort.Search(len(m.chunks), func(i int) bool { return m.chunks[i].First > pos }) - 1
}

func (m *memory) Summary(i int) (Summary, error) {
	m.sumMu.Lock()
	defer m.sumMu.Unlock()
	if m.sums == nil {
		m.sums = make([]Summary, len(m.chunks))
	}
	if m.sums[i].Ops == 0 {
		m.sums[i] = Summarize(m.chunks[i])
	}
	return m.sums[i], nil
}

// Find is a search by bisection: indices increase.
func (m *memory) Find(index int64) (int64, bool, error) {
	if m.dense {
		return index, index >= 0 && index < m.n, nil
	}
	k := sort.Search(len(m.chunks), func(i int) bool { return m.chunks[i].IndexAt(0) > index }) - 1
	if k < 0 {
		return 0, false, nil
	}
	c := m.chunks[k]
	j := sort.Search(c.Len(), func(i int) bool { return c.IndexAt(i) >= index })
	return c.First + int64(j), j < c.Len() && c.IndexAt(j) == index, nil
}

func (m *memory) Partner(pos int64) (int64, bool, error) {
	m.pairOnce.Do(func() { m.pairs, m.pairErr = pairIndex(m) })
	if m.pairErr != nil {
		return 0, false, m.pairErr
	}
	p := m.pairs[pos]
	return p, p != noPartner, nil
}

package store

import (
	"fmt"
	"sort"
	"sync"

	"github.com/jepsentest/go/histories"
)

// source is the [histories.Source] of a File. It finds chunks by descending
// the directory, whose nodes are in the cache: at most one node for every
// power of 64 in the number of chunks.
//
// Span and Locate cannot report errors. If the node that they need is damaged,
// they answer as if all of its operations were in the last of its chunks, so
// that the lengths add up; ReadChunk on any of them reports the error.
type source struct{ f *File }

func (s *source) NumChunks() int         { return s.f.state.Load().root.chunks }
func (s *source) Dense() bool            { return s.f.state.Load().root.dense }
func (s *source) Names() histories.Names { return s.f.state.Load().root.names }

func (s *source) Span(i int) (first int64, n int) {
	leaf, bad, err := s.f.leafOf(i)
	if err != nil {
		if i == bad.chunk0+bad.chunks-1 {
			return bad.first0, int(bad.ops)
		}
		return bad.first0, 0
	}
	e := &leaf.entries[i-leaf.chunk0]
	return e.first, e.n
}

func (s *source) Locate(pos int64) int {
	leaf, bad, err := s.f.leafAt(pos)
	if err != nil {
		return bad.chunk0 + bad.chunks - 1
	}
	return leaf.chunk0 + leaf.childAt(pos)
}

func (s *source) Summary(i int) (histories.Summary, error) {
	e, err := s.f.entry(i)
	if err != nil {
		return histories.Summary{}, err
	}
	sum := e.summary()
	if e.manyFs {
		c, err := s.ReadChunk(i, histories.ColF)
		if err != nil {
			return histories.Summary{}, err
		}
		sum.Fs = c.Fs
	}
	return sum, nil
}

func (s *source) ReadChunk(i int, cols histories.Columns) (*histories.Chunk, error) {
	d, err := s.f.chunk(i, cols)
	if err != nil {
		return nil, err
	}
	return &d.Chunk, nil
}

// ReadOp makes source an [histories.OpReader].
func (s *source) ReadOp(pos int64) (histories.Op, error) { return s.f.op(s.Locate(pos), pos) }

// Find takes logarithmic time, and one chunk's indices if the history is not dense.
func (s *source) Find(index int64) (int64, bool, error) {
	r := s.f.state.Load().root
	if r.dense {
		return index, index >= 0 && index < r.ops, nil
	}
	leaf, err := s.f.leafByIndex(index)
	if err != nil || leaf == nil {
		return 0, false, err
	}
	j := sort.Search(len(leaf.entries), func(j int) bool { return leaf.entries[j].firstIndex > index }) - 1
	c, err := s.ReadChunk(leaf.chunk0+max(j, 0), histories.ColIndex)
	if err != nil {
		return 0, false, err
	}
	k := sort.Search(c.Len(), func(k int) bool { return c.IndexAt(k) >= index })
	return c.First + int64(k), k < c.Len() && c.IndexAt(k) == index, nil
}

// Partner reads the chunk of pos and, if the other entry is not there, the one
// that holds it. To find a completion it may also read a chunk for each of the
// operations that were open at the end of the chunk of pos, and that took
// longer than the one at pos; it reads the column of processes only.
func (s *source) Partner(pos int64) (int64, bool, error) {
	f := s.f
	st := f.state.Load()
	if pos < 0 || pos >= st.root.ops {
		return 0, false, fmt.Errorf("partner of operation %d of %d: %w", pos, st.root.ops, histories.ErrOutOfRange)
	}
	i := s.Locate(pos)
	d, err := f.chunk(i, histories.ColProcess)
	if err != nil {
		return 0, false, err
	}
	at := int(pos - d.First)
	if p := d.pairs[at]; p != 0 {
		return pos + int64(p), true, nil
	}
	for _, l := range d.links {
		if l.at == int32(at) {
			return l.inv, true, nil
		}
	}
	for {
		if i, err = f.reaching(i+1, pos); err != nil || i < 0 {
			return 0, false, err
		}
		if d, err = f.chunk(i, histories.ColProcess); err != nil {
			return 0, false, err
		}
		j := sort.Search(len(d.links), func(j int) bool { return d.links[j].inv >= pos })
		if j < len(d.links) && d.links[j].inv == pos {
			return d.First + int64(d.links[j].at), true, nil
		}
	}
}

// nodeCell is the place of a directory node in the cache.
type nodeCell struct {
	mu sync.Mutex
	n  *node
}

// node returns the node that k refers to, on the given level.
func (f *File) node(st *state, level int, k kid) (*node, error) {
	it := f.cache.get(cacheKey{f.ident, k.at.off}, func() any { return new(nodeCell) })
	cell, ok := it.value.(*nodeCell)
	if !ok {
		return nil, f.damaged(fmt.Errorf("%w: a directory node where a chunk is", ErrCorrupt), k.at.off, "directory")
	}
	cell.mu.Lock()
	defer cell.mu.Unlock()
	if cell.n == nil {
		n, err := readNode(f, st.size, k.at)
		if err != nil {
			f.cache.remove(it)
			return nil, withPath(err, f.path)
		}
		cell.n = n
		f.cache.grow(it, int64(256*fanout))
	}
	if err := cell.n.check(level, k); err != nil {
		return nil, f.damaged(err, k.at.off, "directory block")
	}
	return cell.n, nil
}

func readNode(f *File, size int64, at pointer) (*node, error) {
	data, err := readBlock(f.dev, size, at, blockNode)
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	n, err := parseNode(data)
	if err != nil {
		return nil, fmt.Errorf("read history: %w", corruptAt(err, at.off, "directory block"))
	}
	return n, nil
}

func (f *File) damaged(err error, off int64, what string) error {
	return fmt.Errorf("read history: %w", withPath(corruptAt(err, off, what), f.path))
}

// top is the reference to the topmost node.
func (st *state) top() kid {
	return kid{at: st.root.dir, chunks: st.root.chunks, ops: st.root.ops}
}

// descend goes from the topmost node to a leaf; choose says by which kid. On
// an error it returns the reference to the node that could not be read.
func (f *File) descend(choose func(n *node) int) (*node, kid, error) {
	st := f.state.Load()
	k := st.top()
	for level := st.root.height - 1; ; level-- {
		n, err := f.node(st, level, k)
		if err != nil {
			return nil, k, err
		}
		if level == 0 {
			f.lastLeaf.Store(n)
			return n, k, nil
		}
		k = n.kids[choose(n)]
	}
}

// leafOf returns the leaf that describes chunk i, which must exist.
func (f *File) leafOf(i int) (*node, kid, error) {
	if n := f.lastLeaf.Load(); n != nil && i >= n.chunk0 && i < n.chunk0+len(n.entries) {
		return n, kid{}, nil
	}
	if r := f.state.Load().root; i < 0 || i >= r.chunks {
		panic(fmt.Sprintf("store: chunk %d of a history of %d", i, r.chunks))
	}
	return f.descend(func(n *node) int { return n.child(i) })
}

// leafAt returns the leaf that describes the chunk of position pos.
func (f *File) leafAt(pos int64) (*node, kid, error) {
	if n := f.lastLeaf.Load(); n != nil && pos >= n.first0 && pos < n.entries[len(n.entries)-1].end() {
		return n, kid{}, nil
	}
	if r := f.state.Load().root; pos < 0 || pos >= r.ops {
		panic(fmt.Sprintf("store: position %d of a history of %d", pos, r.ops))
	}
	return f.descend(func(n *node) int { return n.childAt(pos) })
}

// leafByIndex returns the leaf in which the index must be, if it exists; nil
// if there are no operations.
func (f *File) leafByIndex(index int64) (*node, error) {
	if f.state.Load().root.chunks == 0 {
		return nil, nil
	}
	n, _, err := f.descend(func(n *node) int {
		return max(0, sort.Search(len(n.kids), func(j int) bool { return n.kids[j].firstIndex > index })-1)
	})
	return n, err
}

// reaching returns the first chunk, from chunk i, whose completions reach back
// to position pos, or -1.
func (f *File) reaching(i int, pos int64) (int, error) {
	st := f.state.Load()
	if i >= st.root.chunks {
		return -1, nil
	}
	// In most cases it is the chunk itself.
	if e, err := f.entry(i); err != nil || e.reach <= pos {
		return i, err
	}
	return f.reachingBelow(st, st.root.height-1, st.top(), i, pos)
}

func (f *File) reachingBelow(st *state, level int, k kid, i int, pos int64) (int, error) {
	n, err := f.node(st, level, k)
	if err != nil {
		return -1, err
	}
	for j := range n.entries {
		if c := n.chunk0 + j; c >= i && n.entries[j].reach <= pos {
			return c, nil
		}
	}
	for _, below := range n.kids {
		if below.chunk0+below.chunks <= i || below.reach > pos {
			continue
		}
		if c, err := f.reachingBelow(st, level-1, below, i, pos); err != nil || c >= 0 {
			return c, err
		}
	}
	return -1, nil
}

// entry returns the description of chunk i.
func (f *File) entry(i int) (*entry, error) {
	leaf, _, err := f.leafOf(i)
	if err != nil {
		return nil, err
	}
	return &leaf.entries[i-leaf.chunk0], nil
}

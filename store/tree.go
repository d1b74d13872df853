package store

import (
	"fmt"
	"slices"
)

// The directory of chunks is a tree of immutable nodes with up to 64 entries:
// leaves describe chunks, inner nodes refer to nodes below. Adding a chunk
// writes a new rightmost path. As a node is written anew for each of its
// entries and has at most 64, the cost of a chunk is bounded by the height of
// the tree, which is 3 for a billion operations.

// node is a node of the directory. Level 0 has entries, the others have kids.
type node struct {
	level   int
	chunk0  int   // number of the first chunk below
	first0  int64 // position of the first operation below
	entries []entry
	kids    []kid
}

// kid refers to a node, and says what is below it.
type kid struct {
	at         pointer
	chunk0     int
	chunks     int
	first0     int64
	ops        int64
	firstIndex int64
	reach      int64 // the least of the entries'
}

func (n *node) full() bool { return len(n.entries)+len(n.kids) == fanout }

// asKid describes a node that was written at p.
func (n *node) asKid(p pointer) kid {
	k := kid{at: p, chunk0: n.chunk0, first0: n.first0}
	if n.level == 0 {
		last := &n.entries[len(n.entries)-1]
		k.chunks, k.ops = len(n.entries), last.end()-n.first0
		k.firstIndex, k.reach = n.entries[0].firstIndex, n.first0
		for i := range n.entries {
			k.reach = min(k.reach, n.entries[i].reach)
		}
		return k
	}
	last := &n.kids[len(n.kids)-1]
	k.chunks, k.ops = last.chunk0+last.chunks-n.chunk0, last.first0+last.ops-n.first0
	k.firstIndex, k.reach = n.kids[0].firstIndex, n.first0
	for i := range n.kids {
		k.reach = min(k.reach, n.kids[i].reach)
	}
	return k
}

func (n *node) append(b []byte) []byte {
	b = append(b, byte(n.level))
	b = appendUint(b, uint64(n.chunk0))
	b = appendUint(b, uint64(n.first0))
	b = appendUint(b, uint64(len(n.entries)+len(n.kids)))
	for i := range n.entries {
		b = n.entries[i].append(b)
	}
	for _, k := range n.kids {
		b = appendPointer(b, k.at)
		b = appendUint(b, uint64(k.chunks))
		b = appendUint(b, uint64(k.ops))
		b = appendZigzag(b, k.firstIndex)
		b = appendUint(b, uint64(k.first0-k.reach))
	}
	return b
}

func parseNode(data []byte) (*node, error) {
	c := cursor{b: data}
	n := &node{level: int(c.upTo(maxHeight - 1))}
	n.chunk0 = int(c.upTo(1 << 40))
	n.first0 = int64(c.upTo(1 << 62))
	count := int(c.upTo(fanout))
	if count == 0 {
		c.fail("empty directory node")
	}
	chunk, first := n.chunk0, n.first0
	for range count {
		if c.bad != "" {
			break
		}
		if n.level == 0 {
			e := entry{first: first}
			e.read(&c)
			n.entries = append(n.entries, e)
			first = e.end()
			continue
		}
		k := kid{at: c.pointer(), chunk0: chunk, first0: first}
		k.chunks = int(c.upTo(1 << 40))
		k.ops = int64(c.upTo(uint64(k.chunks) * maxChunkOps))
		k.firstIndex = c.int()
		k.reach = first - int64(c.upTo(uint64(first)))
		if k.chunks == 0 || k.ops < int64(k.chunks) {
			c.fail("bad directory reference")
		}
		n.kids = append(n.kids, k)
		chunk, first = chunk+k.chunks, first+k.ops
	}
	return n, c.finish()
}

// directory builds the tree. Only its rightmost path is in memory.
//
// Invariants: levels[l].level == l; every level but the topmost is linked in
// the one above, or will be by the next write; a level is never empty once it
// has been added.
type directory struct {
	levels []level
}

type level struct {
	node
	linked bool // the last kid of the level above refers to this node
	dirty  bool // changed since it was written
}

// add appends a chunk. Full nodes are written to p.
func (d *directory) add(p *packer, number int, e entry) {
	lv := d.room(p, 0, number, e.first)
	lv.entries = append(lv.entries, e)
	lv.dirty = true
}

// room returns level l with room for an entry, which begins at the given chunk
// and position.
func (d *directory) room(p *packer, l, chunk int, first int64) *level {
	if l == len(d.levels) {
		d.levels = append(d.levels, level{node: node{level: l, chunk0: chunk, first0: first}})
	}
	if d.levels[l].full() {
		d.link(p, l)
		d.levels[l] = level{node: node{
			level: l, chunk0: chunk, first0: first,
			entries: d.levels[l].entries[:0], kids: d.levels[l].kids[:0],
		}}
	}
	return &d.levels[l]
}

// link writes the node of level l and makes the level above refer to it.
func (d *directory) link(p *packer, l int) {
	lv := &d.levels[l]
	if !lv.dirty && lv.linked {
		return
	}
	k := lv.asKid(lv.write(p))
	if lv.linked {
		up := &d.levels[l+1]
		up.kids[len(up.kids)-1] = k
		up.dirty = true
		return
	}
	lv.linked = true
	up := d.room(p, l+1, k.chunk0, k.first0) // may move d.levels
	up.kids = append(up.kids, k)
	up.dirty = true
}

func (lv *level) write(p *packer) pointer {
	lv.dirty = false
	return p.add(blockNode, lv.append(nil))
}

// flush writes what changed and returns the topmost node and the height.
func (d *directory) flush(p *packer) (pointer, int) {
	top := len(d.levels) - 1
	if top < 0 {
		return pointer{}, 0
	}
	for l := range top {
		d.link(p, l)
	}
	// Linking may have filled the top and added a level above it.
	if len(d.levels)-1 > top {
		return d.flush(p)
	}
	return d.levels[top].write(p), top + 1
}

// check verifies that a node is the one that its parent expects.
func (n *node) check(level int, k kid) error {
	if n.level != level || n.chunk0 != k.chunk0 || n.first0 != k.first0 {
		return fmt.Errorf("%w: not the directory node that was expected", ErrCorrupt)
	}
	got := n.asKid(k.at)
	if got.chunks != k.chunks || got.ops != k.ops {
		return fmt.Errorf("%w: directory node has %d chunks and %d operations where %d and %d were expected",
			ErrCorrupt, got.chunks, got.ops, k.chunks, k.ops)
	}
	return nil
}

// child returns the kid or entry that holds chunk i.
func (n *node) child(i int) int {
	if n.level == 0 {
		return i - n.chunk0
	}
	j, ok := slices.BinarySearchFunc(n.kids, i, func(k kid, i int) int { return k.chunk0 - i })
	if !ok {
		j--
	}
	return j
}

// childAt returns the kid or entry that holds position pos.
func (n *node) childAt(pos int64) int {
	j := 0
	if n.level == 0 {
		for j+1 < len(n.entries) && n.entries[j+1].first <= pos {
			j++
		}
		return j
	}
	for j+1 < len(n.kids) && n.kids[j+1].first0 <= pos {
		j++
	}
	return j
}

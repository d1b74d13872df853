// Package listappend makes the list-append histories of the benchmarks:
// transactions of one to four micro-operations, half of them reads and half
// appends, over ten keys at a time with exponential popularity and at most 256
// appends a key, from a store that applies transactions one at a time. A
// generator allocates little, so that it does not drown what is measured.
package listappend

import (
	"math/rand/v2"
	"time"

	"github.com/jepsentest/go/histories"
)

const (
	activeKeys = 10
	maxAppends = 256
	maxMops    = 4
)

// Generator makes one history. The same seed makes the same one.
type Generator struct {
	rand    *rand.Rand
	now     time.Duration
	index   int64
	threads []thread
	keys    [activeKeys]list
	nextKey int64
	busy    []int // threads with an operation in flight
	idle    []int
}

type thread struct {
	process histories.Process
	mops    []histories.Mop // as invoked
}

type list struct {
	key   int64
	next  int64   // next value to append
	elems []int64 // what has been applied; shared with all reads
}

// New makes a generator with the given number of client threads.
func New(seed uint64, threads int) *Generator {
	g := &Generator{rand: rand.New(rand.NewPCG(seed, 0))}
	for i := range threads {
		g.threads = append(g.threads, thread{process: histories.Process(i)})
		g.idle = append(g.idle, i)
	}
	for i := range g.keys {
		g.keys[i] = g.fresh()
	}
	return g
}

func (g *Generator) fresh() list {
	g.nextKey++
	return list{key: g.nextKey - 1, next: 1, elems: make([]int64, 0, maxAppends)}
}

// Next fills in the next operation of the history. The transaction in it stays
// valid.
func (g *Generator) Next(op *histories.Op) {
	g.now += time.Duration(g.rand.ExpFloat64() * 5000)
	*op = histories.Op{Index: g.index, Time: g.now, F: "txn"}
	g.index++
	if len(g.idle) > 0 && (len(g.busy) == 0 || g.rand.IntN(2) == 0) {
		g.invoke(op)
	} else {
		g.complete(op)
	}
}

func pick(r *rand.Rand, from *[]int) int {
	i := r.IntN(len(*from))
	t := (*from)[i]
	last := len(*from) - 1
	(*from)[i] = (*from)[last]
	*from = (*from)[:last]
	return t
}

func (g *Generator) invoke(op *histories.Op) {
	i := pick(g.rand, &g.idle)
	g.busy = append(g.busy, i)
	t := &g.threads[i]
	t.mops = make([]histories.Mop, 1+g.rand.IntN(maxMops))
	for m := range t.mops {
		// Each key is half as popular as the one before.
		k := 0
		for k < activeKeys-1 && g.rand.IntN(2) == 0 {
			k++
		}
		l := &g.keys[k]
		if g.rand.IntN(2) == 0 {
			t.mops[m] = histories.Read(histories.Int(l.key))
			continue
		}
		t.mops[m] = histories.Append(histories.Int(l.key), histories.Int(l.next))
		if l.next++; l.next > maxAppends {
			g.keys[k] = g.fresh()
		}
	}
	op.Process, op.Type, op.Value = t.process, histories.Invoke, histories.Txn(t.mops...)
}

func (g *Generator) complete(op *histories.Op) {
	i := pick(g.rand, &g.busy)
	g.idle = append(g.idle, i)
	t := &g.threads[i]
	op.Process, op.Type, op.Value = t.process, histories.OK, histories.Txn(t.mops...)
	switch p := g.rand.IntN(100); {
	case p < 3:
		op.Type = histories.Fail
		op.Error = histories.Keyword("conflict")
		return
	case p < 5:
		op.Type = histories.Info
		op.Error = histories.Keyword("timeout")
		t.process += histories.Process(len(g.threads))
		if g.rand.IntN(2) == 0 {
			return // it had no effect
		}
		g.apply(t.mops, nil)
		return
	}
	done := make([]histories.Mop, len(t.mops))
	g.apply(t.mops, done)
	op.Value = histories.Txn(done...)
}

// apply executes a transaction, and puts what was read into done.
func (g *Generator) apply(mops, done []histories.Mop) {
	for m := range mops {
		l := g.find(mops[m].Key)
		if done != nil {
			done[m] = mops[m]
		}
		switch {
		case l == nil: // retired
		case mops[m].Kind == histories.MopAppend:
			v, _ := mops[m].Value.Int()
			l.elems = append(l.elems, v)
		case done != nil && len(l.elems) > 0:
			done[m].Value = histories.Ints(l.elems[:len(l.elems):len(l.elems)]...)
		}
	}
}

func (g *Generator) find(key histories.Value) *list {
	num, _ := key.Int()
	for i := range g.keys {
		if g.keys[i].key == num {
			return &g.keys[i]
		}
	}
	return nil
}

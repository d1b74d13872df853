package dsl

import (
	"fmt"
	"sync/atomic"

	"github.com/jepsentest/go/histories"
)

// Range gives a number of client threads to a generator, for [Reserve].
type Range struct {
	Threads int
	Gen     Generator
}

// Reserve divides the client threads in view: the first range gets the first of
// them, the next range the following ones, and so on; rest gets all threads that
// are left, named ones included. Each offers its soonest operation; among equals
// one is drawn in proportion to the numbers of threads. A Reserve inside another
// restriction divides the threads that are in view there. It is done when all
// ranges and rest are. It panics when there are too few threads for the ranges.
func Reserve(ranges []Range, rest Generator) Generator {
	r := &reserve{gs: make([]Generator, 0, len(ranges)+1)}
	for _, x := range ranges {
		r.gs = append(r.gs, x.Gen)
		r.sizes = append(r.sizes, x.Threads)
	}
	r.gs = append(r.gs, rest)
	return r
}

// reserve is a Reserve that has not begun: it does not know the threads yet.
type reserve struct {
	gs    []Generator
	sizes []int // of all but rest
	// divided is how the threads were divided last time: a reserve that begins
	// many times, with many keys, does so mostly on the same threads.
	divided atomic.Pointer[division]
}

type division struct {
	of    *mask
	views []*mask
}

func (r *reserve) start(ctx Context) *reserved {
	d := &reserved{members: newBunch(len(r.gs))}
	last := r.divided.Load()
	if last == nil || last.of != ctx.mask {
		last = &division{ctx.mask, divide(ctx, r.sizes)}
		r.divided.Store(last)
	}
	d.views = last.views
	for i, g := range r.gs {
		v := d.views[i]
		if v.count == 0 {
			if i < len(r.sizes) && r.sizes[i] > 0 {
				panic(fmt.Sprintf("dsl: Reserve asks for more client threads than there are: range %d of %d is left with none",
					i+1, len(r.sizes)))
			}
			g = nil
		}
		d.members.add(g, v.count)
	}
	return d
}

// divide cuts the client threads in view into runs of the given sizes, and adds
// one of all threads that are left. When there are too few, the last runs are
// short.
func divide(ctx Context, sizes []int) []*mask {
	words := make([][]uint64, len(sizes)+1)
	for i := range words {
		words[i] = make([]uint64, len(ctx.mask.words))
	}
	i, taken := 0, 0
	for t := range ctx.EachThread {
		for i < len(sizes) && taken >= sizes[i] {
			i, taken = i+1, 0
		}
		to := len(sizes)
		if ctx.IsClient(t) {
			to = i
			taken++
		}
		words[to][t/64] |= 1 << (t % 64)
	}
	masks := make([]*mask, len(words))
	for i, w := range words {
		masks[i] = newMask(w, ctx.threads.all.words)
	}
	return masks
}

func (r *reserve) Op(ctx Context) Offer { return r.start(ctx).Op(ctx) }

func (r *reserve) Update(ctx Context, ev *histories.Op) Generator {
	return r.start(ctx).Update(ctx, ev)
}

// reserved is a Reserve that runs, on threads that stay the same.
type reserved struct {
	views   []*mask
	members *bunch
	change  change
	other   *reserved
}

func (r *reserved) twin() **reserved { return &r.other }

func (r *reserved) Op(ctx Context) (o Offer) {
	b := settle(ctx, r.members, &r.change)
	i := b.choose(&o, ctx, r.views, false)
	if o.State == Ready {
		n := successor(r, ctx)
		n.members, n.change = b, change{i + 1, o.Next}
		o.Next = n
	}
	return o
}

func (r *reserved) Update(ctx Context, ev *histories.Op) Generator {
	t, ok := ctx.Thread(ev.Process)
	if !ok || !ctx.Has(t) {
		return r
	}
	b := settle(ctx, r.members, &r.change)
	if ctx.ahead && b == r.members {
		b = b.clone()
	}
	for i, v := range r.views {
		if g := b.gs[i]; v.has(t) && g != nil {
			b.set(i, g.Update(ctx.see(v), ev))
		}
	}
	r = running(r, ctx)
	r.members, r.change = b, change{}
	return r
}

package dsl

import (
	"fmt"
	"maps"

	"github.com/jepsentest/go/histories"
)

// OnThreads restricts g to the threads that satisfy want. Only their events
// reach g. want must depend on nothing but its arguments' threads, never on
// time or on which threads are free: it is asked once for each thread.
func OnThreads(want func(ctx Context, t Thread) bool, g Generator) Generator {
	return narrowed(restrict(want), g)
}

func narrowed(to *restriction, g Generator) Generator {
	if g == nil {
		return nil
	}
	return &onThreads{to, g}
}

// Clients restricts g to the threads of clients.
func Clients(g Generator) Generator { return OnThreads(Context.IsClient, g) }

// Nemesis restricts g to the thread of the nemesis.
func Nemesis(g Generator) Generator { return Named("nemesis", g) }

// Named restricts g to the thread with the given name.
func Named(name string, g Generator) Generator {
	return OnThreads(func(ctx Context, t Thread) bool { return ctx.Name(t) == name }, g)
}

type onThreads struct {
	to *restriction
	g  Generator
}

func (r *onThreads) Op(ctx Context) Offer {
	ctx = r.to.apply(ctx)
	if ctx.Len() == 0 {
		return Offer{}
	}
	o := r.g.Op(ctx)
	if o.State == Ready {
		o.Next = narrowed(r.to, o.Next)
	}
	return o
}

func (r *onThreads) Update(ctx Context, ev *histories.Op) Generator {
	ctx = r.to.apply(ctx)
	if !ctx.concerns(ev) {
		return r
	}
	return narrowed(r.to, r.g.Update(ctx, ev))
}

// EachThread runs a copy of g on each thread, independent of the others. It is
// done when all copies are.
func EachThread(g Generator) Generator {
	if g == nil {
		return nil
	}
	return &eachThread{fresh: g}
}

// EachProcess is like [EachThread], but a thread whose process has changed
// since it last had an operation begins again. Beware of final reads: a client
// that always crashes makes it run forever.
func EachProcess(g Generator) Generator {
	if g == nil {
		return nil
	}
	return &eachThread{fresh: g, perProcess: true}
}

type eachThread struct {
	fresh      Generator
	perProcess bool
	copies     map[Thread]threadCopy // of the threads that had events
}

type threadCopy struct {
	g       Generator
	process histories.Process
}

func (e *eachThread) copyOf(ctx Context, t Thread) Generator {
	c, ok := e.copies[t]
	if !ok || e.perProcess && c.process != ctx.Process(t) {
		return e.fresh
	}
	return c.g
}

func (e *eachThread) with(t Thread, p histories.Process, g Generator) *eachThread {
	out := *e
	out.copies = maps.Clone(e.copies)
	if out.copies == nil {
		out.copies = map[Thread]threadCopy{}
	}
	out.copies[t] = threadCopy{g, p}
	return &out
}

// only returns ctx with nothing but thread t in view.
func (e *eachThread) only(ctx Context, t Thread) Context {
	words := make([]uint64, len(ctx.mask.words))
	words[t/64] |= 1 << (t % 64)
	ctx.mask = &mask{words: words, count: 1}
	return ctx
}

func (e *eachThread) Op(ctx Context) Offer {
	var c choice
	busy := false
	for t := range ctx.EachThread {
		if !ctx.IsFree(t) {
			busy = true
			continue
		}
		if g := e.copyOf(ctx, t); g != nil {
			c.add(ctx, g.Op(e.only(ctx, t)), int(t), 1)
		}
	}
	switch {
	case c.best.State == Ready:
		t := Thread(c.from)
		c.best.Next = e.with(t, ctx.Process(t), c.best.Next)
	case busy:
		return Offer{State: Pending, Wake: c.best.Wake}
	}
	return c.best
}

func (e *eachThread) Update(ctx Context, ev *histories.Op) Generator {
	t, ok := ctx.Thread(ev.Process)
	if !ok || !ctx.Has(t) {
		return e
	}
	g := e.copyOf(ctx, t)
	if g == nil {
		return e
	}
	return e.with(t, ev.Process, g.Update(e.only(ctx, t), ev))
}

// Range gives a number of client threads to a generator, for [Reserve].
type Range struct {
	Threads int
	Gen     Generator
}

// Reserve divides the client threads in view: the first range gets the first of
// them, the next range the following ones, and so on; rest gets all threads that
// are left, named ones included. Each offers its soonest operation; among equals
// one is drawn in proportion to the numbers of threads. A Reserve inside another
// restriction divides the threads that are in view there.
func Reserve(ranges []Range, rest Generator) Generator {
	r := &reserve{}
	from := 0
	for _, x := range ranges {
		r.gs = append(r.gs, x.Gen)
		r.to = append(r.to, clientsBetween(from, from+x.Threads))
		from += x.Threads
	}
	r.gs = append(r.gs, rest)
	r.to = append(r.to, restrict(func(ctx Context, t Thread) bool {
		return !ctx.IsClient(t) || rank(ctx, t) >= from
	}))
	return r
}

// rank returns how many client threads in view come before t.
func rank(ctx Context, t Thread) int {
	n := 0
	for u := range ctx.EachThread {
		if u >= t {
			break
		}
		if ctx.IsClient(u) {
			n++
		}
	}
	return n
}

func clientsBetween(from, to int) *restriction {
	return restrict(func(ctx Context, t Thread) bool {
		k := rank(ctx, t)
		return ctx.IsClient(t) && k >= from && k < to
	})
}

type reserve struct {
	gs []Generator
	to []*restriction
}

func (r *reserve) Op(ctx Context) Offer {
	var c choice
	for i, g := range r.gs {
		sub := r.to[i].apply(ctx)
		if i < len(r.gs)-1 && sub.Len() == 0 {
			panic(fmt.Sprintf("dsl: Reserve asks for more client threads than there are: range %d of %d is left with none",
				i+1, len(r.gs)-1))
		}
		if g != nil && sub.Len() > 0 {
			c.add(ctx, g.Op(sub), i, sub.Len())
		}
	}
	if c.best.State == Ready {
		c.best.Next = &reserve{replace(r.gs, c.from, c.best.Next), r.to}
	}
	return c.best
}

func (r *reserve) Update(ctx Context, ev *histories.Op) Generator {
	for i, g := range r.gs {
		if sub := r.to[i].apply(ctx); sub.concerns(ev) {
			if g == nil {
				return r
			}
			return &reserve{replace(r.gs, i, g.Update(sub, ev)), r.to}
		}
	}
	return r
}

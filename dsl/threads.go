package dsl

import (
	"slices"
	"time"

	"github.com/jepsentest/go/histories"
)

// OnThreads restricts g to the threads that satisfy want. Only their events
// reach g. It is done at once if no thread in view does. want must depend on
// nothing but its arguments' threads, never on time or on which threads are
// free: its answers are kept.
func OnThreads(want func(ctx Context, t Thread) bool, g Generator) Generator {
	if g == nil {
		return nil
	}
	return &onThreads{to: restrict(want), g: g}
}

// Clients restricts g to the threads of clients.
func Clients(g Generator) Generator { return OnThreads(Context.IsClient, g) }

// Nemesis restricts g to the thread of the nemesis.
func Nemesis(g Generator) Generator { return Named("nemesis", g) }

// Named restricts g to the thread with the given name. Faults that overlap each
// have a thread: Any(Named("nemesis", partitions), Named("clock", skews)).
func Named(name string, g Generator) Generator {
	return OnThreads(func(ctx Context, t Thread) bool { return ctx.Name(t) == name }, g)
}

type onThreads struct {
	to    *restriction
	g     Generator
	other *onThreads
}

func (r *onThreads) twin() **onThreads { return &r.other }

func (r *onThreads) Op(ctx Context) (o Offer) {
	ctx = r.to.apply(ctx)
	if ctx.mask.count == 0 {
		return Offer{}
	}
	o = r.g.Op(ctx)
	if o.State == Ready && o.Next != nil {
		n := successor(r, ctx)
		n.g = o.Next
		o.Next = n
	}
	return o
}

func (r *onThreads) Update(ctx Context, ev *histories.Op) Generator {
	ctx = r.to.apply(ctx)
	if !ctx.Concerns(ev) {
		return r
	}
	g := r.g.Update(ctx, ev)
	if g == nil {
		return nil
	}
	r = running(r, ctx)
	r.g = g
	return r
}

// EachThread runs a copy of g on each thread, independent of the others. Threads
// take turns. It is done when all copies are, and their operations have completed.
func EachThread(g Generator) Generator { return copied(g, false) }

// EachProcess is like [EachThread], but a thread begins again when its process
// has crashed in one of the operations. Beware of final reads: a client that
// always crashes makes it run forever.
func EachProcess(g Generator) Generator { return copied(g, true) }

func copied(g Generator, perProcess bool) Generator {
	if g == nil {
		return nil
	}
	return &eachThread{fresh: g, perProcess: perProcess}
}

// eachThread shares the copies with its twin, as choice does its members.
type eachThread struct {
	fresh      Generator
	perProcess bool
	copies     []threadCopy // by thread; nil before anything has happened
	// What is to be changed once this state has been taken: the copy of thread
	// at−1. 0 means nothing.
	at     int
	change threadCopy
	other  *eachThread
}

type threadCopy struct {
	begun bool
	mine  bool      // whether the thread is busy with an operation of g
	g     Generator // valid once begun
}

func (e *eachThread) twin() **eachThread { return &e.other }

// settled returns the copies with the change made. If own is true, the caller
// may change them.
func (e *eachThread) settled(ctx Context, own bool) []threadCopy {
	copies := e.copies
	switch {
	case copies == nil:
		return make([]threadCopy, len(ctx.threads.procs))
	case ctx.ahead && (own || e.at != 0):
		copies = slices.Clone(copies)
	}
	if e.at != 0 {
		copies[e.at-1] = e.change
		if !ctx.ahead {
			e.at, e.change = 0, threadCopy{}
		}
	}
	return copies
}

// copyOf returns the generator of thread t.
func (e *eachThread) copyOf(copies []threadCopy, t Thread) Generator {
	if copies == nil || !copies[t].begun {
		return e.fresh
	}
	return copies[t].g
}

func (e *eachThread) Op(ctx Context) Offer {
	if ctx.Len() == 0 {
		return Offer{}
	}
	copies := e.copies
	if copies != nil {
		copies = e.settled(ctx, false)
	}
	first, ok := ctx.SomeFree()
	if !ok {
		first = 0
	}
	var best Offer
	var wake time.Duration
	from := first
	// Around once, from the thread whose turn it is. An operation that is due
	// cannot be beaten.
	for _, half := range [2][2]Thread{{first, Thread(len(ctx.threads.procs))}, {0, first}} {
		for t := half[0]; t < half[1]; t++ {
			if t, ok = ctx.nextFree(t, half[1]); !ok {
				break
			}
			g := e.copyOf(copies, t)
			if g == nil {
				continue
			}
			o := g.Op(ctx.Only(t))
			switch {
			case o.State == Ready && (best.State != Ready || o.Op.Time < best.Op.Time):
				best, from = o, t
			case o.State == Pending:
				wake = sooner(wake, o.Wake)
				best.State = max(best.State, Pending)
			}
			if best.State == Ready && best.Op.Time <= ctx.Time {
				return e.take(ctx, best, copies, from)
			}
		}
	}
	switch {
	case best.State == Ready && (wake == 0 || wake >= best.Op.Time):
		return e.take(ctx, best, copies, from)
	case best.State != Done || !e.rested(ctx, copies):
		return Offer{State: Pending, Wake: wake}
	}
	return Offer{}
}

// rested reports whether the busy threads have nothing to do any more.
func (e *eachThread) rested(ctx Context, copies []threadCopy) bool {
	for t := range ctx.EachThread {
		if ctx.IsFree(t) {
			continue
		}
		if copies != nil && copies[t].mine {
			return false
		}
		if g := e.copyOf(copies, t); g != nil && g.Op(ctx.Only(t)).State != Done {
			return false
		}
	}
	return true
}

// take makes o the offer of all threads.
func (e *eachThread) take(ctx Context, o Offer, copies []threadCopy, t Thread) Offer {
	if copies == nil {
		copies = make([]threadCopy, len(ctx.threads.procs))
	}
	n := successor(e, ctx)
	n.copies, n.at, n.change = copies, int(t)+1, threadCopy{true, o.Op.Kind == Invoke, o.Next}
	o.Next = n
	return o
}

func (e *eachThread) Update(ctx Context, ev *histories.Op) Generator {
	t, ok := ctx.Thread(ev.Process)
	if !ok || !ctx.Has(t) {
		return e
	}
	copies := e.settled(ctx, true)
	c := threadCopy{true, copies[t].mine && ev.IsInvocation(), e.copyOf(copies, t)}
	if e.perProcess && copies[t].mine && ev.Type == histories.Info && ev.Phase == histories.NoPhase {
		c = threadCopy{}
	} else {
		c.g = update(c.g, ctx.Only(t), ev)
	}
	copies[t] = c
	e = running(e, ctx)
	e.copies, e.at, e.change = copies, 0, threadCopy{}
	return e
}

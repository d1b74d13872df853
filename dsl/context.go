package dsl

import (
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jepsentest/go/histories"
)

// Context is what a generator sees when it is asked: the time, which threads it
// may use, and which of them are free. It is passed by value and valid only
// during the call.
type Context struct {
	// Time is the time since the test began.
	Time time.Duration

	threads *Threads
	mask    *mask
	ahead   bool
}

// Rand is the source of randomness. What it yields depends on the seed of the
// test and on the events so far alone.
func (c Context) Rand() *rand.Rand { return c.threads.rng }

// Again returns the context for asking the same question once more: Rand starts
// over. Combinators that ask one generator twice, and tests, need it.
func (c Context) Again() Context {
	c.threads.pcg.Seed(c.threads.seed, c.threads.step)
	return c
}

// Ahead returns the context for looking ahead: for asking the Next of an offer
// that has not been taken, and may never be. Asked with it, a generator leaves
// every other state of itself as it is, also those that it otherwise would
// write over; see the package comment. It costs allocations.
func (c Context) Ahead() Context {
	c.ahead = true
	return c
}

// MayReuse reports whether a generator that is asked may write its successor
// over its own predecessor, and one that is updated may change in place. It is
// false only for contexts made by [Context.Ahead].
func (c Context) MayReuse() bool { return !c.ahead }

// VirtualTime reports whether time stands still until the generator has
// answered, as in a simulation.
func (c Context) VirtualTime() bool { return c.threads.virtual }

// Len returns the number of threads in view, busy or free.
func (c Context) Len() int { return c.mask.count }

// Has reports whether thread t is in view.
func (c Context) Has(t Thread) bool { return c.mask.has(t) }

// IsFree reports whether thread t is in view and free.
func (c Context) IsFree(t Thread) bool { return c.mask.has(t) && c.threads.IsFree(t) }

// IsClient reports whether t is a thread of a client.
func (c Context) IsClient(t Thread) bool { return int(t) < c.threads.clients }

// Name returns the name of a named thread, and "" for clients.
func (c Context) Name(t Thread) string {
	if c.IsClient(t) {
		return ""
	}
	return c.threads.names[int(t)-c.threads.clients]
}

// Thread returns the thread that runs, or ran, process p.
func (c Context) Thread(p histories.Process) (Thread, bool) { return c.threads.Thread(p) }

// Process returns the process that thread t runs.
func (c Context) Process(t Thread) histories.Process { return c.threads.procs[t] }

// FreeLen returns the number of threads in view that are free.
func (c Context) FreeLen() int { return c.mask.freeLen(c.threads) }

// AllFree reports whether no thread in view is busy.
func (c Context) AllFree() bool { return c.mask.allFree(c.threads) }

// SomeFree returns a free thread in view, and false if there is none. Threads
// take turns: the search begins one further after each invocation.
func (c Context) SomeFree() (Thread, bool) { return c.mask.someFree(c.threads, c.threads.next) }

// EachThread calls yield for the threads in view, in ascending order.
func (c Context) EachThread(yield func(Thread) bool) { eachBit(c.mask.words, yield) }

// Only returns the context with nothing but thread t in view.
func (c Context) Only(t Thread) Context {
	c.mask = c.threads.only(t)
	return c
}

// Fill completes an operation for being offered: it chooses a free process and
// sets the time to now. It returns false if no thread in view is free.
func (c Context) Fill(op Op) (Op, bool) {
	t, ok := c.SomeFree()
	if !ok {
		return op, false
	}
	op.Process = c.threads.procs[t]
	op.Time = max(op.Time, c.Time)
	return op, true
}

// Concerns reports whether an event belongs to a thread in view.
func (c Context) Concerns(ev *histories.Op) bool {
	t, ok := c.threads.Thread(ev.Process)
	return ok && c.mask.has(t)
}

// see returns the context with the threads of m in view.
func (c Context) see(m *mask) Context {
	c.mask = m
	return c
}

// clientsInView returns the clients among the threads in view.
func (c Context) clientsInView() *mask {
	if c.mask.clients == nil {
		words := make([]uint64, len(c.mask.words))
		for t := range c.EachThread {
			if c.IsClient(t) {
				words[t/64] |= 1 << (t % 64)
			}
		}
		c.mask.clients = newMask(words, c.threads.all.words)
	}
	return c.mask.clients
}

// restriction narrows contexts to the threads that satisfy a condition. The
// set is compiled once for each set of threads it is applied to (in practice,
// once); after that restricting costs a pointer comparison. It is shared by all
// states of a generator, also of tests that run at the same time.
type restriction struct {
	want     func(Context, Thread) bool
	compiled atomic.Pointer[narrowing]
}

// narrowing is what a restriction makes of a set of threads. The list of them
// is short: a restriction inside an independent group has as many as there are
// groups, and nearly all others have one.
type narrowing struct {
	from, to *mask
	length   int
	older    *narrowing
}

// maxNarrowings bounds the list, which for a generator that outlives many tests
// would grow with every one of them.
const maxNarrowings = 128

func restrict(want func(Context, Thread) bool) *restriction { return &restriction{want: want} }

func (r *restriction) apply(c Context) Context {
	head := r.compiled.Load()
	for n := head; n != nil; n = n.older {
		if n.from == c.mask {
			c.mask = n.to
			return c
		}
	}
	if c.mask.count == 1 {
		// EachThread has as many sets of threads as there are threads, and each
		// of them needs but one question.
		if t := Thread(c.mask.lo*64 + bits.TrailingZeros64(c.mask.words[c.mask.lo])); !r.want(c, t) {
			c.mask = c.threads.none
		}
		return c
	}
	words := make([]uint64, len(c.mask.words))
	for t := range c.EachThread {
		if r.want(c, t) {
			words[t/64] |= 1 << (t % 64)
		}
	}
	n := &narrowing{from: c.mask, to: newMask(words, c.threads.all.words), length: 1}
	if head != nil && head.length < maxNarrowings {
		n.length, n.older = head.length+1, head
	}
	r.compiled.Store(n)
	c.mask = n.to
	return c
}

// nextFree returns the first free thread in view from t on and before end.
func (c Context) nextFree(t, end Thread) (Thread, bool) {
	th, ok := c.mask.freeFrom(c.threads, int(t))
	return th, ok && th < end
}

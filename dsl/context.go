package dsl

import (
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jepsentest/go/histories"
)

// Thread identifies a worker of the test: the client threads are 0 … n−1, the
// named threads (the nemesis first) follow. A thread runs one process at a
// time; when that crashes it goes on with another.
type Thread int

// Threads is the state of all threads of a test: which are busy, and which
// process each runs. The scheduler and the simulator change it; generators see
// it through a [Context].
type Threads struct {
	clients int
	names   histories.Names
	free    []uint64
	all     *mask
	procs   []histories.Process
	// next is the thread at which the search for a free one begins, so that
	// work goes around.
	next int
	// step counts the events so far. Together with the seed it determines what
	// Rand yields.
	seed, step uint64
	pcg        rand.PCG
	rng        *rand.Rand
}

// NewThreads makes n client threads and one thread for each name (usually just
// "nemesis"), all free.
func NewThreads(n int, seed uint64, names ...string) *Threads {
	total := n + len(names)
	t := &Threads{
		clients: n,
		names:   names,
		free:    make([]uint64, (total+63)/64),
		procs:   make([]histories.Process, total),
		seed:    seed,
	}
	for i := range total {
		t.free[i/64] |= 1 << (i % 64)
		t.procs[i] = histories.Process(i)
		if i >= n {
			t.procs[i] = histories.Nemesis - histories.Process(i-n)
		}
	}
	t.all = newMask(t.free)
	t.rng = rand.New(&t.pcg)
	return t
}

// Context returns what generators see at the given time.
func (t *Threads) Context(now time.Duration) Context {
	t.pcg.Seed(t.seed, t.step)
	return Context{threads: t, mask: t.all, Time: now}
}

// Thread returns the thread that runs process p, and false if no thread ever could.
func (t *Threads) Thread(p histories.Process) (Thread, bool) {
	th := t.clients + int(histories.Nemesis-p)
	if p.IsClient() {
		if t.clients == 0 {
			return 0, false
		}
		th = int(int64(p) % int64(t.clients))
	}
	return Thread(th), th >= 0 && th < len(t.procs)
}

// Process returns the process that thread th runs.
func (t *Threads) Process(th Thread) histories.Process { return t.procs[th] }

// Names returns the names of the named threads.
func (t *Threads) Names() histories.Names { return t.names }

// Len returns the number of threads.
func (t *Threads) Len() int { return len(t.procs) }

// Busy marks th as busy: one of its operations has been dispatched.
func (t *Threads) Busy(th Thread) {
	t.free[th/64] &^= 1 << (th % 64)
	t.next++
	if t.next >= len(t.procs) {
		t.next = 0
	}
	t.step++
}

// Free marks th as free: its operation has completed.
func (t *Threads) Free(th Thread) {
	t.free[th/64] |= 1 << (th % 64)
	t.step++
}

// IsFree reports whether th is free.
func (t *Threads) IsFree(th Thread) bool { return t.free[th/64]&(1<<(th%64)) != 0 }

// AnyBusy reports whether some thread is busy.
func (t *Threads) AnyBusy() bool {
	for i, w := range t.all.words {
		if t.free[i] != w {
			return true
		}
	}
	return false
}

// Retire gives th the next process of its own: the old one has crashed. Named
// threads keep theirs.
func (t *Threads) Retire(th Thread) {
	if int(th) < t.clients {
		t.procs[th] += histories.Process(t.clients)
	}
}

// mask is an immutable set of threads.
type mask struct {
	words []uint64
	count int
}

func newMask(words []uint64) *mask {
	m := &mask{words: append([]uint64(nil), words...)}
	for _, w := range words {
		m.count += bits.OnesCount64(w)
	}
	return m
}

func (m *mask) has(t Thread) bool { return m.words[t/64]&(1<<(t%64)) != 0 }

// Context is what a generator sees when it is asked: the time, which threads it
// may use, and which of them are free. It is passed by value and valid only
// during the call.
type Context struct {
	// Time is the time since the test began.
	Time time.Duration

	threads *Threads
	mask    *mask
}

// Rand is the source of randomness. What it yields depends on the seed of the
// test and on the events so far alone.
func (c Context) Rand() *rand.Rand { return c.threads.rng }

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
func (c Context) FreeLen() int {
	n := 0
	for i, w := range c.mask.words {
		n += bits.OnesCount64(w & c.threads.free[i])
	}
	return n
}

// AllFree reports whether no thread in view is busy.
func (c Context) AllFree() bool {
	for i, w := range c.mask.words {
		if w&^c.threads.free[i] != 0 {
			return false
		}
	}
	return true
}

// SomeFree returns a free thread in view. Threads take turns.
func (c Context) SomeFree() (Thread, bool) {
	start := c.threads.next
	w, bit := start/64, uint(start%64)
	words, free := c.mask.words, c.threads.free
	n := len(words)
	if x := words[w] & free[w] >> bit << bit; x != 0 {
		return Thread(w*64 + bits.TrailingZeros64(x)), true
	}
	for i := 1; i <= n; i++ {
		k := (w + i) % n
		if x := words[k] & free[k]; x != 0 {
			return Thread(k*64 + bits.TrailingZeros64(x)), true
		}
	}
	return 0, false
}

// EachThread calls yield for the threads in view, in ascending order.
func (c Context) EachThread(yield func(Thread) bool) { eachBit(c.mask.words, yield) }

func eachBit(words []uint64, yield func(Thread) bool) {
	for i, w := range words {
		for w != 0 {
			if !yield(Thread(i*64 + bits.TrailingZeros64(w))) {
				return
			}
			w &= w - 1
		}
	}
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

// restriction narrows contexts to the threads that satisfy a condition. The
// set is compiled once for each set of threads it is applied to (in practice,
// once); after that restricting costs a pointer comparison. It is shared by all
// states of a generator, also of tests that run at the same time.
type restriction struct {
	want     func(Context, Thread) bool
	compiled atomic.Pointer[narrowing]
}

type narrowing struct{ from, to *mask }

func restrict(want func(Context, Thread) bool) *restriction { return &restriction{want: want} }

func (r *restriction) apply(c Context) Context {
	n := r.compiled.Load()
	if n == nil || n.from != c.mask {
		words := make([]uint64, len(c.mask.words))
		c.EachThread(func(t Thread) bool {
			if r.want(c, t) {
				words[t/64] |= 1 << (t % 64)
			}
			return true
		})
		n = &narrowing{c.mask, newMask(words)}
		r.compiled.Store(n)
	}
	c.mask = n.to
	return c
}

// concerns reports whether an event belongs to a thread in view.
func (c Context) concerns(ev *histories.Op) bool {
	t, ok := c.threads.Thread(ev.Process)
	return ok && c.mask.has(t)
}

// Again returns the context for asking the same question once more: Rand starts
// over. Combinators that ask one generator twice, and tests, need it.
func (c Context) Again() Context {
	c.threads.pcg.Seed(c.threads.seed, c.threads.step)
	return c
}

package dsl

import (
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/jepsentest/go/histories"
)

// Thread identifies a worker of the test: the client threads are 0 … n−1, the
// named threads (the nemesis first) follow. A thread runs one process at a
// time; when that crashes it goes on with another.
type Thread int

// Threads is the state of all threads of a test: which are busy, and which
// process each runs. The scheduler and the simulator change it; generators see
// it through a [Context]. It belongs to one goroutine.
type Threads struct {
	clients int
	names   histories.Names
	free    []uint64
	// summary has bit w set exactly if free[w] is not zero, so that the search
	// for a free thread skips 64 busy ones at a time.
	summary []uint64
	busy    int // how many bits of free are not set
	all     *mask
	none    *mask
	single  []*mask // the masks of one thread each, made when first needed
	procs   []histories.Process
	retired int // how many processes have been replaced
	// next is the thread at which the search for a free one begins, so that
	// work goes around.
	next int
	// step counts the events so far. Together with the seed it determines what
	// Rand yields.
	seed, step uint64
	pcg        rand.PCG
	rng        *rand.Rand
	virtual    bool
	immutable  bool
}

// NewThreads makes n client threads and one thread for each name (usually just
// "nemesis"), all free.
func NewThreads(n int, seed uint64, names ...string) *Threads {
	total := n + len(names)
	words := (total + 63) / 64
	t := &Threads{
		clients: n,
		names:   names,
		free:    make([]uint64, words),
		summary: make([]uint64, (words+63)/64),
		single:  make([]*mask, total),
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
	for w := range t.free {
		t.summary[w/64] |= 1 << (w % 64)
	}
	t.all = newMask(t.free, t.free)
	t.none = newMask(make([]uint64, words), t.free)
	t.rng = rand.New(&t.pcg)
	return t
}

// InVirtualTime says that time stands still while a generator is asked, as in a
// simulation. Generators made with [Prepare] then wait for their operations.
func (t *Threads) InVirtualTime() { t.virtual = true }

// Immutably makes all contexts forbid the reuse of memory (see
// [Context.Ahead]): generators then never change at all. It costs allocations,
// and gives the same operations; tests compare the two.
func (t *Threads) Immutably() { t.immutable = true }

// Context returns what generators see at the given time.
func (t *Threads) Context(now time.Duration) Context {
	t.pcg.Seed(t.seed, t.step)
	return Context{threads: t, mask: t.all, Time: now, ahead: t.immutable}
}

// Thread returns the thread that runs process p, and false if no thread ever could.
func (t *Threads) Thread(p histories.Process) (Thread, bool) {
	if p < 0 {
		th := t.clients + int(histories.Nemesis-p)
		return Thread(th), th < len(t.procs)
	}
	if int64(p) < int64(t.clients) {
		return Thread(p), true // it is the first process of its thread
	}
	if t.clients == 0 {
		return 0, false
	}
	return Thread(int64(p) % int64(t.clients)), true
}

// Process returns the process that thread th runs.
func (t *Threads) Process(th Thread) histories.Process { return t.procs[th] }

// Names returns the names of the named threads.
func (t *Threads) Names() histories.Names { return t.names }

// Len returns the number of threads.
func (t *Threads) Len() int { return len(t.procs) }

// Busy marks th as busy: one of its operations has been dispatched.
func (t *Threads) Busy(th Thread) {
	w, bit := th/64, uint64(1)<<(th%64)
	if t.free[w]&bit != 0 {
		t.busy++
		if t.free[w] &^= bit; t.free[w] == 0 {
			t.summary[w/64] &^= 1 << (w % 64)
		}
	}
	t.next++
	if t.next >= len(t.procs) {
		t.next = 0
	}
	t.step++
}

// Free marks th as free: its operation has completed.
func (t *Threads) Free(th Thread) {
	w, bit := th/64, uint64(1)<<(th%64)
	if t.free[w]&bit == 0 {
		t.busy--
		t.free[w] |= bit
		t.summary[w/64] |= 1 << (w % 64)
	}
	t.step++
}

// IsFree reports whether th is free.
func (t *Threads) IsFree(th Thread) bool { return t.free[th/64]&(1<<(th%64)) != 0 }

// AnyBusy reports whether some thread is busy.
func (t *Threads) AnyBusy() bool { return t.busy > 0 }

// Retire gives th the next process of its own: the old one has crashed. Named
// threads keep theirs.
func (t *Threads) Retire(th Thread) {
	if int(th) < t.clients {
		t.procs[th] += histories.Process(t.clients)
		t.retired++
	}
}

// only returns the mask of a single thread.
func (t *Threads) only(th Thread) *mask {
	if t.single[th] == nil {
		words := make([]uint64, len(t.free))
		words[th/64] = 1 << (th % 64)
		t.single[th] = newMask(words, t.all.words)
	}
	return t.single[th]
}

// mask is an immutable set of threads. Beside its bits it knows which words can
// be skipped, so that a question about a small group of a thousand threads, or
// about nearly all of them, looks at a word or two.
type mask struct {
	words []uint64
	count int
	// lo and hi bound the words that are not zero.
	lo, hi int
	// rest are the threads that are not in the set, restLo and restHi bound
	// its words that are not zero, restCount is their number.
	rest           []uint64
	restLo, restHi int
	restCount      int
	// clients is the part that are clients, made when first needed.
	clients *mask
}

func newMask(words, all []uint64) *mask {
	m := &mask{words: append([]uint64(nil), words...), rest: make([]uint64, len(words))}
	for i, w := range words {
		m.rest[i] = all[i] &^ w
	}
	m.count, m.lo, m.hi = span(m.words)
	m.restCount, m.restLo, m.restHi = span(m.rest)
	return m
}

// span returns how many bits are set, and bounds the words that have any.
func span(words []uint64) (count, lo, hi int) {
	for i, w := range words {
		if w == 0 {
			continue
		}
		if count == 0 {
			lo = i
		}
		count += bits.OnesCount64(w)
		hi = i + 1
	}
	return count, lo, hi
}

func (m *mask) has(t Thread) bool { return m.words[t/64]&(1<<(t%64)) != 0 }

// freeLen returns how many threads of m are free.
func (m *mask) freeLen(t *Threads) int {
	if t.busy == 0 {
		return m.count
	}
	n := 0
	if m.restHi-m.restLo < m.hi-m.lo {
		n = len(t.procs) - t.busy
		for i := m.restLo; i < m.restHi; i++ {
			n -= bits.OnesCount64(m.rest[i] & t.free[i])
		}
		return n
	}
	for i := m.lo; i < m.hi; i++ {
		n += bits.OnesCount64(m.words[i] & t.free[i])
	}
	return n
}

// allFree reports whether no thread of m is busy.
func (m *mask) allFree(t *Threads) bool {
	switch {
	case t.busy == 0:
		return true
	case t.busy > m.restCount:
		return false // not all of them are elsewhere
	}
	for i := m.lo; i < m.hi; i++ {
		if m.words[i]&^t.free[i] != 0 {
			return false
		}
	}
	return true
}

// someFree returns the first free thread of m at or after the given one, going
// around.
func (m *mask) someFree(t *Threads, from int) (Thread, bool) {
	if t.busy == len(t.procs) {
		return 0, false
	}
	if th, ok := m.freeFrom(t, from); ok {
		return th, true
	}
	return m.freeIn(t, m.lo, min(from/64+1, m.hi))
}

// freeFrom returns the first free thread of m at or after the given one.
func (m *mask) freeFrom(t *Threads, from int) (Thread, bool) {
	w, bit := from/64, uint(from%64)
	if w < m.lo || w >= m.hi {
		return m.freeIn(t, max(w, m.lo), m.hi)
	}
	if x := m.words[w] & t.free[w] >> bit << bit; x != 0 {
		return Thread(w*64 + bits.TrailingZeros64(x)), true
	}
	return m.freeIn(t, w+1, m.hi)
}

// freeIn returns the first free thread of m in words lo … hi−1.
func (m *mask) freeIn(t *Threads, lo, hi int) (Thread, bool) {
	for i := lo; i < hi; {
		s := t.summary[i/64] >> (i % 64)
		if s == 0 {
			i = (i/64 + 1) * 64
			continue
		}
		if i += bits.TrailingZeros64(s); i >= hi {
			break
		}
		if x := m.words[i] & t.free[i]; x != 0 {
			return Thread(i*64 + bits.TrailingZeros64(x)), true
		}
		i++
	}
	return 0, false
}

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

package dsl

import (
	"time"

	"github.com/jepsentest/go/histories"
)

// Keys are the names of independent objects, one after the other: i counts from
// 0, and the first false ends them. It must not have effects, and always give
// the same key for the same i.
type Keys func(i int) (key histories.Value, ok bool)

// IntKeys are the integers from 0 on, without end.
func IntKeys() Keys {
	return func(i int) (histories.Value, bool) { return histories.Int(int64(i)), true }
}

// KeysOf are the given keys.
func KeysOf(keys ...histories.Value) Keys {
	return func(i int) (histories.Value, bool) {
		if i >= len(keys) {
			return histories.Value{}, false
		}
		return keys[i], true
	}
}

// FirstKeys are the first n of keys.
func FirstKeys(n int, keys Keys) Keys {
	return func(i int) (histories.Value, bool) {
		if i >= n {
			return histories.Value{}, false
		}
		return keys(i)
	}
}

// IndependentSequential works on one key after the other: for each it runs what
// gen makes of it until that is done. The value v of every operation becomes the
// tuple of the key and v ([histories.Tuple]), by which checkers tell the keys
// apart. Events reach the generator of their key with the tuple taken off;
// events of other keys do not reach it.
//
// gen must not have effects, and must return generators that have not begun. A
// key for which it returns nil is skipped.
func IndependentSequential(keys Keys, gen func(key histories.Value) Generator) Generator {
	return &sequential{keys: keys, gen: gen}
}

type sequential struct {
	keys  Keys
	gen   func(histories.Value) Generator
	cur   keyed
	next  int // the number of the next key
	slab  tuples
	run   *sequentialRun // nil before it has begun
	other *sequential
}

// sequentialRun is what the states of one run share.
type sequentialRun struct {
	source source
	inner  histories.Op // what the generator of a key is told, during the call
}

// keyed is a generator that works on a key. Nil: on none.
type keyed struct {
	key histories.Value
	g   Generator
}

// source makes what works on a key. Asking for it again and again, before an
// operation of it is taken, is common: the last answer is kept.
type source struct {
	keys   Keys
	gen    func(histories.Value) Generator
	number int // of last, counted from 1; 0 means that there is none
	last   keyed
}

// get returns what works on key number i, and false if there is no such key.
func (s *source) get(i int) (keyed, bool) {
	if s.number == i+1 {
		return s.last, true
	}
	key, ok := s.keys(i)
	if !ok {
		return keyed{}, false
	}
	s.number, s.last = i+1, keyed{key, s.gen(key)}
	return s.last, true
}

// ask asks k, and while that is done, what is made of the next keys, beginning
// with number *next. It sets o to the offer and next to the number of the key to
// go on with, and returns what made the offer.
func (k keyed) ask(o *Offer, ctx Context, s *source, next *int) keyed {
	for range maxEmpty {
		if k.g != nil {
			if *o = k.g.Op(ctx); o.State != Done {
				return k
			}
		}
		var ok bool
		if k, ok = s.get(*next); !ok {
			return keyed{}
		}
		*next++
	}
	panic(noProgress("Independent"))
}

// update tells k of an event, if it belongs to its key. inner is memory for what
// k is told.
func (k *keyed) update(ctx Context, ev, inner *histories.Op) {
	if k.g == nil {
		return
	}
	key, v, ok := ev.Value.Tuple()
	if !ok || !key.Equal(k.key) {
		return
	}
	*inner = *ev
	inner.Value = v
	k.g = k.g.Update(ctx, inner)
}

// tuples is memory for the values of operations, many in one piece. Where the
// next one goes is part of the state of a generator: asking writes there, and
// only an offer that is taken moves on.
type tuples struct {
	free [][2]histories.Value
}

const tuplesAtOnce = 256

// wrap makes a tuple of key and the value of op, and returns the memory that is
// left once it has been taken. If the state that s belongs to runs, s keeps what
// it gets, for the next question.
func (s *tuples) wrap(ctx Context, runs bool, key histories.Value, op *Op) tuples {
	if op.Kind != Invoke {
		return *s
	}
	free := s.free
	switch {
	case ctx.ahead:
		free = make([][2]histories.Value, 1)
	case len(free) == 0:
		free = make([][2]histories.Value, tuplesAtOnce)
		if runs {
			s.free = free
		}
	}
	free[0] = [2]histories.Value{key, op.Value}
	op.Value = histories.TupleOf(&free[0])
	return tuples{free[1:]}
}

func (s *sequential) twin() **sequential { return &s.other }

func (s *sequential) Op(ctx Context) (o Offer) {
	next, run := s.next, s.run
	if run == nil {
		run = &sequentialRun{source: source{keys: s.keys, gen: s.gen}}
	}
	k := s.cur.ask(&o, ctx, &run.source, &next)
	if o.State == Ready {
		n := successor(s, ctx)
		n.slab = s.slab.wrap(ctx, s.other != nil, k.key, &o.Op)
		n.cur, n.next, n.run = keyed{k.key, o.Next}, next, run
		o.Next = n
	}
	return o
}

func (s *sequential) Update(ctx Context, ev *histories.Op) Generator {
	if s.cur.g == nil {
		return s
	}
	cur := s.cur
	cur.update(ctx, ev, &s.run.inner)
	s = running(s, ctx)
	s.cur = cur
	return s
}

// IndependentConcurrent works on several keys at a time. It divides the client
// threads in view into groups of n consecutive ones. Each group has a key of its
// own and runs what gen makes of it; when that is done, the group goes on with
// the next key that no group has had. Values, events and gen are as in
// [IndependentSequential]. Named threads do nothing.
//
// Any number of threads will do: those that are left over when the groups are
// full are dealt out to the first groups, so that a group has n threads or a few
// more; fewer than n threads form one group. Groups take turns, in the order of
// their free threads. An operation that is due comes before one for later. It
// is done when there are no more keys and all groups are done.
func IndependentConcurrent(n int, keys Keys, gen func(key histories.Value) Generator) Generator {
	return &concurrent{n: max(n, 1), keys: keys, gen: gen}
}

// concurrent shares the groups with its twin, as choice does its members.
type concurrent struct {
	n    int
	keys Keys
	gen  func(histories.Value) Generator
	// groups is nil before it has begun.
	groups *groups
	// What is to be changed once this state has been taken: group at−1 goes on
	// with cur, the next key is number next, the memory for values is slab. If
	// at is 0 only the first is void.
	at    int
	cur   keyed
	next  int
	slab  tuples
	other *concurrent
}

// groups are groups of threads with what they work on.
type groups struct {
	of    []int32 // by thread: the number of its group, or −1
	views []*mask
	cur   []keyed
	// shared by all states of a run
	source *source
	inner  *histories.Op // what a group is told, during the call
}

func newGroups(ctx Context, n int, s source) *groups {
	clients := ctx.clientsInView()
	count := max(clients.count/n, 1)
	sizes := make([]int, count)
	for i := range sizes {
		sizes[i] = clients.count / count
		if i < clients.count%count {
			sizes[i]++
		}
	}
	g := &groups{of: make([]int32, len(ctx.threads.procs)), views: divide(ctx.see(clients), sizes)[:count],
		cur: make([]keyed, count), source: &s, inner: new(histories.Op)}
	for t := range g.of {
		g.of[t] = -1
	}
	for i, v := range g.views {
		eachBit(v.words, func(t Thread) bool { g.of[t] = int32(i); return true })
	}
	return g
}

func (g *groups) clone() *groups {
	c := *g
	c.cur = append([]keyed(nil), g.cur...)
	return &c
}

func (c *concurrent) twin() **concurrent { return &c.other }

// settled returns the groups with the change made. If own is true, the caller
// may change them.
func (c *concurrent) settled(ctx Context, own bool) *groups {
	g := c.groups
	switch {
	case g == nil:
		return newGroups(ctx, c.n, source{keys: c.keys, gen: c.gen})
	case ctx.ahead && (own || c.at != 0):
		g = g.clone()
	}
	if c.at != 0 {
		g.cur[c.at-1] = c.cur
		if !ctx.ahead {
			c.at, c.cur = 0, keyed{}
		}
	}
	return g
}

func (c *concurrent) Op(ctx Context) (o Offer) {
	clients := ctx.clientsInView()
	if clients.count == 0 {
		return Offer{}
	}
	g := c.settled(ctx, false)
	turn := 0
	if first, ok := clients.someFree(ctx.threads, ctx.threads.next); ok {
		turn = int(g.of[first])
	}
	at, k, next := c.soonest(&o, ctx, g, turn)
	if o.State == Ready {
		n := successor(c, ctx)
		n.slab = c.slab.wrap(ctx, c.other != nil, k.key, &o.Op)
		n.groups, n.at, n.cur, n.next = g, at+1, keyed{k.key, o.Next}, next
		o.Next = n
	}
	return o
}

// soonest asks the groups, beginning with the one whose turn it is, until one
// has an operation that is due. That is nearly always the first. Groups that are
// done try the same next key: only one of them can be taken. It sets best, which
// must be the zero Offer, to the soonest offer, and returns whose group made it,
// what that works on, and the number of the next key.
func (c *concurrent) soonest(best *Offer, ctx Context, g *groups, turn int) (at int, k keyed, next int) {
	at, next = turn, c.next
	k = g.cur[at].ask(best, ctx.see(g.views[at]), g.source, &next)
	if best.State == Ready && best.Op.Time <= ctx.Time {
		return at, k, next
	}
	var wake time.Duration
	if best.State == Pending {
		wake = best.Wake
	}
	for d := 1; d < len(g.views); d++ {
		i := turn + d
		if i >= len(g.views) {
			i -= len(g.views)
		}
		view := ctx.see(g.views[i])
		if best.State != Done && view.FreeLen() == 0 {
			continue // it is pending or done, which makes no difference any more
		}
		var o Offer
		ni := c.next
		ki := g.cur[i].ask(&o, view, g.source, &ni)
		switch {
		case o.State == Ready && (best.State != Ready || o.Op.Time < best.Op.Time):
			*best, at, k, next = o, i, ki, ni
			if o.Op.Time <= ctx.Time {
				return at, k, next
			}
		case o.State == Pending:
			wake = sooner(wake, o.Wake)
			best.State = max(best.State, Pending)
		}
	}
	if best.State == Pending || best.State == Ready && wake != 0 && wake < best.Op.Time {
		*best = Offer{State: Pending, Wake: wake}
	}
	return at, k, next
}

func (c *concurrent) Update(ctx Context, ev *histories.Op) Generator {
	t, ok := ctx.Thread(ev.Process)
	if !ok || !ctx.Has(t) || !ctx.IsClient(t) {
		return c
	}
	g := c.settled(ctx, true)
	i := g.of[t]
	g.cur[i].update(ctx.see(g.views[i]), ev, g.inner)
	c = running(c, ctx)
	c.groups, c.at, c.cur = g, 0, keyed{}
	return c
}

package dsl

import (
	"time"

	"github.com/jepsentest/go/histories"
)

// Limit lets at most n operations of g through.
func Limit(n int, g Generator) Generator {
	if n <= 0 || g == nil {
		return nil
	}
	return &limit{n, g}
}

type limit struct {
	n int
	g Generator
}

func (l *limit) Op(ctx Context) Offer {
	o := l.g.Op(ctx)
	if o.State == Ready {
		o.Next = Limit(l.n-1, o.Next)
	}
	return o
}

func (l *limit) Update(ctx Context, ev *histories.Op) Generator {
	return Limit(l.n, l.g.Update(ctx, ev))
}

// ProcessLimit runs g until more than n different processes would have been in
// view at its operations: it bounds how many clients may crash.
func ProcessLimit(n int, g Generator) Generator {
	if n <= 0 || g == nil {
		return nil
	}
	return &processLimit{n: n, g: g}
}

type processLimit struct {
	n    int
	g    Generator
	seen map[histories.Process]bool // never changed once made
}

func (l *processLimit) Op(ctx Context) Offer {
	o := l.g.Op(ctx)
	if o.State != Ready {
		return o
	}
	seen := l.seen
	for t := range ctx.EachThread {
		if p := ctx.Process(t); !seen[p] {
			grown := make(map[histories.Process]bool, len(seen)+1)
			for q := range seen {
				grown[q] = true
			}
			grown[p] = true
			seen = grown
		}
	}
	if len(seen) > l.n {
		return Offer{}
	}
	if o.Next != nil {
		o.Next = &processLimit{l.n, o.Next, seen}
	}
	return o
}

func (l *processLimit) Update(ctx Context, ev *histories.Op) Generator {
	g := l.g.Update(ctx, ev)
	if g == nil {
		return nil
	}
	return &processLimit{l.n, g, l.seen}
}

// ConcurrencyLimit is pending while n or more threads in view are busy.
func ConcurrencyLimit(n int, g Generator) Generator {
	if n <= 0 || g == nil {
		return nil
	}
	return &concurrencyLimit{n, g}
}

type concurrencyLimit struct {
	n int
	g Generator
}

func (l *concurrencyLimit) Op(ctx Context) Offer {
	if ctx.Len()-ctx.FreeLen() >= l.n {
		return pending()
	}
	o := l.g.Op(ctx)
	if o.State == Ready {
		o.Next = ConcurrencyLimit(l.n, o.Next)
	}
	return o
}

func (l *concurrencyLimit) Update(ctx Context, ev *histories.Op) Generator {
	return ConcurrencyLimit(l.n, l.g.Update(ctx, ev))
}

// TimeLimit runs g for d, counted from the time of its first operation. It ends
// by the clock: also while g is pending. Operations that are still running then
// are waited for as usual.
func TimeLimit(d time.Duration, g Generator) Generator {
	if g == nil {
		return nil
	}
	return &timeLimit{d: d, g: g}
}

type timeLimit struct {
	d     time.Duration
	g     Generator
	begun bool
	end   time.Duration // valid once begun
}

func (l *timeLimit) Op(ctx Context) Offer {
	if l.begun && ctx.Time >= l.end {
		return Offer{}
	}
	o := l.g.Op(ctx)
	switch o.State {
	case Pending:
		if l.begun {
			o.Wake = sooner(o.Wake, l.end)
		}
	case Ready:
		next := &timeLimit{l.d, o.Next, true, l.end}
		if !l.begun {
			next.end = o.Op.Time + l.d
		}
		if o.Op.Time >= next.end {
			// Nothing more can come in time, yet the time is not over: whoever
			// waits for the end of this generator waits for the clock.
			return Offer{State: Pending, Wake: next.end}
		}
		o.Next = next
		if next.g == nil {
			o.Next = nil
		}
	}
	return o
}

func (l *timeLimit) Update(ctx Context, ev *histories.Op) Generator {
	g := l.g.Update(ctx, ev)
	if g == nil {
		return nil
	}
	return &timeLimit{l.d, g, l.begun, l.end}
}

// Stagger spaces the operations of g at random, d apart on average: the time
// between two is uniform between 0 and 2d. The rate is that of all threads
// together. The first operation is due at once; what was missed is not caught up.
func Stagger(d time.Duration, g Generator) Generator { return spaced(d, g, false) }

// Delay spaces the operations of g evenly, d apart. The rate is that of all
// threads together. When operations come late, the next ones come sooner, until
// the schedule is met again.
func Delay(d time.Duration, g Generator) Generator { return spaced(d, g, true) }

func spaced(d time.Duration, g Generator, even bool) Generator {
	if g == nil {
		return nil
	}
	return &space{d: d, g: g, even: even}
}

type space struct {
	d     time.Duration
	g     Generator
	even  bool
	begun bool
	next  time.Duration // when the next operation is due, once begun
}

func (s *space) Op(ctx Context) Offer {
	o := s.g.Op(ctx)
	if o.State != Ready {
		return o
	}
	due := o.Op.Time
	if s.begun && s.even {
		// The schedule goes on from where it was, not from where it is late,
		// but never from a time before the operation was wanted at all.
		due = s.next
	}
	if s.begun {
		o.Op.Time = max(o.Op.Time, s.next)
	}
	if o.Next == nil {
		return o
	}
	next := &space{d: s.d, g: o.Next, even: s.even, begun: true}
	if s.even {
		next.next = due + s.d
	} else {
		next.next = o.Op.Time
		if s.d > 0 {
			next.next += time.Duration(ctx.Rand().Int64N(2 * int64(s.d)))
		}
	}
	o.Next = next
	return o
}

func (s *space) Update(ctx Context, ev *histories.Op) Generator {
	g := s.g.Update(ctx, ev)
	if g == nil {
		return nil
	}
	return &space{s.d, g, s.even, s.begun, s.next}
}

// Synchronize waits until every thread in view is free, and is then g. Named
// threads are in view too unless g is restricted: a nemesis that is busy holds
// up a phase that includes it.
func Synchronize(g Generator) Generator {
	if g == nil {
		return nil
	}
	return &synchronize{g}
}

type synchronize struct{ g Generator }

func (s *synchronize) Op(ctx Context) Offer {
	if !ctx.AllFree() {
		return pending()
	}
	return s.g.Op(ctx)
}

func (s *synchronize) Update(ctx Context, ev *histories.Op) Generator {
	return Synchronize(s.g.Update(ctx, ev))
}

// Phases runs generators one after the other, each only when all threads have
// finished what the one before had begun.
func Phases(gs ...Generator) Generator {
	out := make([]Generator, 0, len(gs))
	for _, g := range gs {
		if g != nil {
			out = append(out, Synchronize(g))
		}
	}
	return Seq(out...)
}

// UntilOK runs g until one of its operations completes OK.
func UntilOK(g Generator) Generator {
	if g == nil {
		return nil
	}
	return &untilOK{g: g}
}

type untilOK struct {
	g    Generator
	mine map[histories.Process]bool // never changed once made
}

func (u *untilOK) with(g Generator, p histories.Process, mine bool) Generator {
	m := make(map[histories.Process]bool, len(u.mine)+1)
	for q := range u.mine {
		m[q] = true
	}
	if mine {
		m[p] = true
	} else {
		delete(m, p)
	}
	return &untilOK{g, m}
}

func (u *untilOK) Op(ctx Context) Offer {
	if u.g == nil {
		if len(u.mine) > 0 {
			return pending()
		}
		return Offer{}
	}
	o := u.g.Op(ctx)
	switch {
	case o.State == Ready:
		o.Next = u.with(o.Next, o.Op.Process, true)
	case o.State == Done && len(u.mine) > 0:
		return pending() // one of them may yet succeed, or a retry be wanted
	}
	return o
}

func (u *untilOK) Update(ctx Context, ev *histories.Op) Generator {
	g := update(u.g, ctx, ev)
	if ev.IsInvocation() || !u.mine[ev.Process] {
		return &untilOK{g, u.mine}
	}
	if ev.Type == histories.OK {
		return nil
	}
	return u.with(g, ev.Process, false)
}

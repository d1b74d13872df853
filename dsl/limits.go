package dsl

import (
	"time"

	"github.com/jepsentest/go/histories"
)

// Limit lets at most n operations of g through. The events of the last one still
// reach g.
func Limit(n int, g Generator) Generator {
	if n <= 0 || g == nil {
		return nil
	}
	return &limit{n: n, g: g}
}

type limit struct {
	n     int // how many are left
	g     Generator
	other *limit
}

func (l *limit) twin() **limit { return &l.other }

func (l *limit) Op(ctx Context) (o Offer) {
	if l.n == 0 {
		return Offer{}
	}
	o = l.g.Op(ctx)
	if o.State != Ready || o.Next == nil {
		return o
	}
	n := successor(l, ctx)
	n.n, n.g = l.n-1, o.Next
	o.Next = n
	return o
}

func (l *limit) Update(ctx Context, ev *histories.Op) Generator {
	g := l.g.Update(ctx, ev)
	if g == nil {
		return nil
	}
	l = running(l, ctx)
	l.g = g
	return l
}

// ProcessLimit runs g until more than n different processes have been in view
// since its first operation: it bounds how many clients may crash.
func ProcessLimit(n int, g Generator) Generator {
	if n <= 0 || g == nil {
		return nil
	}
	return &processLimit{n: n, g: g}
}

type processLimit struct {
	n     int
	g     Generator
	begun bool
	// Once begun: what sum was at the first operation, and how many processes
	// have been seen when the test had replaced that many.
	first   int64
	seen    int
	retired int
	other   *processLimit
}

func (l *processLimit) twin() **processLimit { return &l.other }

// sum adds up the processes in view. As a thread goes on with the process that
// is the number of clients higher, it says how many have been replaced.
func (l *processLimit) sum(ctx Context) (sum int64) {
	for t := range ctx.EachThread {
		sum += int64(ctx.Process(t))
	}
	return sum
}

func (l *processLimit) Op(ctx Context) (o Offer) {
	first, seen := l.first, l.seen
	switch {
	case !l.begun:
		first, seen = l.sum(ctx), ctx.Len()
	case l.retired != ctx.threads.retired:
		seen = ctx.Len() + int(l.sum(ctx)-first)/ctx.threads.clients
	}
	if seen > l.n {
		return Offer{}
	}
	o = l.g.Op(ctx)
	if o.State == Ready && o.Next != nil {
		n := successor(l, ctx)
		n.g, n.begun, n.first, n.seen, n.retired = o.Next, true, first, seen, ctx.threads.retired
		o.Next = n
	}
	return o
}

func (l *processLimit) Update(ctx Context, ev *histories.Op) Generator {
	g := l.g.Update(ctx, ev)
	if g == nil {
		return nil
	}
	l = running(l, ctx)
	l.g = g
	return l
}

// ConcurrencyLimit is pending while n or more threads in view are busy.
func ConcurrencyLimit(n int, g Generator) Generator {
	if n <= 0 || g == nil {
		return nil
	}
	return &concurrencyLimit{n: n, g: g}
}

type concurrencyLimit struct {
	n     int
	g     Generator
	other *concurrencyLimit
}

func (l *concurrencyLimit) twin() **concurrencyLimit { return &l.other }

func (l *concurrencyLimit) Op(ctx Context) (o Offer) {
	o = l.g.Op(ctx)
	if o.State == Ready && ctx.Len()-ctx.FreeLen() >= l.n {
		return pending() // but one that is done is so at any load
	}
	if o.State == Ready && o.Next != nil {
		n := successor(l, ctx)
		n.g = o.Next
		o.Next = n
	}
	return o
}

func (l *concurrencyLimit) Update(ctx Context, ev *histories.Op) Generator {
	g := l.g.Update(ctx, ev)
	if g == nil {
		return nil
	}
	l = running(l, ctx)
	l.g = g
	return l
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
	other *timeLimit
}

func (l *timeLimit) twin() **timeLimit { return &l.other }

func (l *timeLimit) Op(ctx Context) (o Offer) {
	if l.begun && ctx.Time >= l.end {
		return Offer{}
	}
	o = l.g.Op(ctx)
	switch {
	case o.State == Pending && l.begun:
		o.Wake = sooner(o.Wake, l.end)
	case o.State == Ready:
		end := l.end
		if !l.begun {
			end = o.Op.Time + l.d
		}
		if o.Op.Time >= end {
			// Nothing more can come in time, yet the time is not over: whoever
			// waits for the end of this generator waits for the clock.
			return Offer{State: Pending, Wake: end}
		}
		if o.Next == nil {
			return o
		}
		n := successor(l, ctx)
		n.g, n.begun, n.end = o.Next, true, end
		o.Next = n
	}
	return o
}

func (l *timeLimit) Update(ctx Context, ev *histories.Op) Generator {
	g := l.g.Update(ctx, ev)
	if g == nil {
		return nil
	}
	l = running(l, ctx)
	l.g = g
	return l
}

// EndEarly runs g, and tosses a coin after every so many of its operations: with
// probability p it ends there. Tests that explore many short runs (fuzzers,
// deterministic simulators) want runs of different lengths. The mean length is
// every/p operations.
func EndEarly(every int, p float64, g Generator) Generator {
	if g == nil {
		return nil
	}
	every = max(every, 1)
	return &endEarly{every: every, left: every, p: p, g: g}
}

type endEarly struct {
	every int
	left  int // until the next toss; 0 when it has ended the generator
	p     float64
	g     Generator
	other *endEarly
}

func (e *endEarly) twin() **endEarly { return &e.other }

func (e *endEarly) Op(ctx Context) (o Offer) {
	if e.left == 0 {
		return Offer{}
	}
	o = e.g.Op(ctx)
	if o.State != Ready || o.Next == nil {
		return o
	}
	left := e.left - 1
	if left == 0 && ctx.Rand().Float64() >= e.p {
		left = e.every
	}
	n := successor(e, ctx)
	n.left, n.g = left, o.Next
	o.Next = n
	return o
}

func (e *endEarly) Update(ctx Context, ev *histories.Op) Generator {
	g := e.g.Update(ctx, ev)
	if g == nil {
		return nil
	}
	e = running(e, ctx)
	e.g = g
	return e
}

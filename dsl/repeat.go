package dsl

import "github.com/jepsentest/go/histories"

// Repeat asks the same g again and again, always in the state in which it was
// given, whatever was taken of it: Repeat(Once(op)) offers op without end.
// Events do reach g.
func Repeat(g Generator) Generator {
	if o, ok := g.(*once); ok {
		return (*always)(o)
	}
	return repeated(-1, g)
}

// always is Repeat(Once(…)), which most generators have at the bottom.
type always Op

func (a *always) Op(ctx Context) (o Offer) {
	t, ok := ctx.SomeFree()
	if !ok {
		return pending()
	}
	o.State, o.Op, o.Next = Ready, Op(*a), a
	o.Op.Process = ctx.threads.procs[t]
	o.Op.Time = max(a.Time, ctx.Time)
	return o
}

func (a *always) Update(Context, *histories.Op) Generator { return a }

// RepeatN is like [Repeat], but ends after n operations.
func RepeatN(n int, g Generator) Generator {
	if n <= 0 {
		return nil
	}
	return repeated(n, g)
}

func repeated(n int, g Generator) Generator {
	if g == nil {
		return nil
	}
	return &repeat{g: g, left: n}
}

type repeat struct {
	g     Generator
	left  int // negative: without end
	other *repeat
}

func (r *repeat) twin() **repeat { return &r.other }

func (r *repeat) Op(ctx Context) (o Offer) {
	if r.left == 0 {
		return Offer{}
	}
	o = r.g.Op(ctx)
	switch {
	case o.State != Ready:
	case r.left < 0:
		o.Next = r // asking leaves g as it is
	default:
		n := successor(r, ctx)
		n.g, n.left = r.g, r.left-1
		o.Next = n
	}
	return o
}

func (r *repeat) Update(ctx Context, ev *histories.Op) Generator {
	g := r.g.Update(ctx, ev)
	if g == nil {
		return nil
	}
	r = running(r, ctx)
	r.g = g
	return r
}

// Cycle runs g until it is done, then g from its beginning again, without end.
func Cycle(g Generator) Generator { return cycled(-1, g) }

// CycleN runs g from its beginning to its end n times.
func CycleN(n int, g Generator) Generator {
	if n <= 0 {
		return nil
	}
	return cycled(n-1, g)
}

func cycled(more int, g Generator) Generator {
	if g == nil {
		return nil
	}
	return &cycle{original: g, cur: g, more: more}
}

type cycle struct {
	original, cur Generator
	more          int // how many rounds are still to begin; negative: without end
	other         *cycle
}

func (c *cycle) twin() **cycle { return &c.other }

func (c *cycle) Op(ctx Context) Offer {
	cur, more := c.cur, c.more
	for range 2 {
		switch o := ask(cur, ctx); o.State {
		case Ready:
			n := successor(c, ctx)
			n.cur, n.more = o.Next, more
			o.Next = n
			return o
		case Pending:
			return o
		}
		if more == 0 {
			break
		}
		cur = c.original
		more = max(more-1, -1)
	}
	return Offer{} // it was the last round, or a round has nothing in it
}

func (c *cycle) Update(ctx Context, ev *histories.Op) Generator {
	if c.cur == nil {
		return c
	}
	g := c.cur.Update(ctx, ev)
	c = running(c, ctx)
	c.cur = g
	return c
}

// FlipFlop takes operations from a and b in turn, and is done when the one
// whose turn it is is done. Events go to both.
func FlipFlop(a, b Generator) Generator { return &flipFlop{now: a, then: b} }

type flipFlop struct {
	now, then Generator
	other     *flipFlop
}

func (f *flipFlop) twin() **flipFlop { return &f.other }

func (f *flipFlop) Op(ctx Context) (o Offer) {
	o = ask(f.now, ctx)
	if o.State == Ready {
		n := successor(f, ctx)
		n.now, n.then = f.then, o.Next
		o.Next = n
	}
	return o
}

func (f *flipFlop) Update(ctx Context, ev *histories.Op) Generator {
	now, then := update(f.now, ctx, ev), update(f.then, ctx, ev)
	f = running(f, ctx)
	f.now, f.then = now, then
	return f
}

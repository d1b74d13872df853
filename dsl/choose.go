package dsl

import (
	"slices"

	"github.com/jepsentest/go/histories"
)

// choice collects offers and keeps the soonest: an operation beats pending,
// pending beats done, an earlier time beats a later one. Among equals the
// winner is drawn, each in proportion to its weight.
type choice struct {
	best   Offer
	from   int // who made it
	weight int
}

func (c *choice) add(ctx Context, o Offer, from, weight int) {
	wake := sooner(c.best.Wake, o.Wake)
	switch {
	case o.State > c.best.State || o.State == Ready && o.Op.Time < c.best.Op.Time:
		c.best, c.from, c.weight = o, from, weight
	case o.State == Ready && c.best.State == Ready && o.Op.Time == c.best.Op.Time:
		// Drawing the i-th of n with weight wᵢ against the sum of the earlier
		// ones makes the whole draw proportional.
		c.weight += weight
		if ctx.Rand().IntN(c.weight) < weight {
			c.best, c.from = o, from
		}
	}
	c.best.Wake = wake
}

// replace returns gs with element i replaced.
func replace(gs []Generator, i int, g Generator) []Generator {
	out := slices.Clone(gs)
	out[i] = g
	return out
}

// Any offers the soonest operation of all of gs; only the one it came from
// moves on. Events go to all of them. It is done when all are.
func Any(gs ...Generator) Generator { return newAny(gs, false) }

// ShortestAny is like [Any], but done as soon as one of gs is: to run a workload
// until the script of the nemesis ends.
func ShortestAny(gs ...Generator) Generator { return newAny(gs, true) }

func newAny(gs []Generator, shortest bool) Generator {
	if !shortest {
		gs = slices.DeleteFunc(slices.Clone(gs), func(g Generator) bool { return g == nil })
	}
	if shortest && slices.Contains(gs, nil) || len(gs) == 0 {
		return nil
	}
	if len(gs) == 1 {
		return gs[0]
	}
	return &anyOf{gs, shortest}
}

type anyOf struct {
	gs       []Generator
	shortest bool
}

func (a *anyOf) Op(ctx Context) Offer {
	var c choice
	for i, g := range a.gs {
		o := ask(g, ctx)
		if o.State == Done && a.shortest {
			return Offer{}
		}
		c.add(ctx, o, i, 1)
	}
	if c.best.State == Ready {
		c.best.Next = &anyOf{replace(a.gs, c.from, c.best.Next), a.shortest}
	}
	return c.best
}

func (a *anyOf) Update(ctx Context, ev *histories.Op) Generator {
	out := make([]Generator, len(a.gs))
	for i, g := range a.gs {
		out[i] = update(g, ctx, ev)
	}
	return newAny(out, a.shortest)
}

// Mix takes each operation from one of gs, drawn with equal chances. When the
// one drawn is done it is left out; when it is pending, the others are tried,
// and only if all are pending is the mix. Events go to all of them.
func Mix(gs ...Generator) Generator {
	gs = slices.DeleteFunc(slices.Clone(gs), func(g Generator) bool { return g == nil })
	switch len(gs) {
	case 0:
		return nil
	case 1:
		return gs[0]
	}
	return &mix{gs}
}

type mix struct{ gs []Generator }

func (m *mix) Op(ctx Context) Offer {
	// Begin anywhere and go around: the first that has something to offer. To
	// keep the draw uniform when some have nothing, each next one is drawn from
	// those that are left.
	left := make([]int, len(m.gs))
	for i := range left {
		left[i] = i
	}
	var best Offer
	for len(left) > 0 {
		k := ctx.Rand().IntN(len(left))
		i := left[k]
		switch o := ask(m.gs[i], ctx); o.State {
		case Ready:
			// An operation for later must not hold back what is due now.
			if o.Op.Time <= ctx.Time || best.State != Ready || o.Op.Time < best.Op.Time {
				o.Next = &mix{replace(m.gs, i, o.Next)}
				best = o
			}
			if best.Op.Time <= ctx.Time {
				return best
			}
		case Pending:
			wake := sooner(best.Wake, o.Wake)
			if best.State == Done {
				best = o
			}
			best.Wake = wake
		}
		left[k] = left[len(left)-1]
		left = left[:len(left)-1]
	}
	return best
}

func (m *mix) Update(ctx Context, ev *histories.Op) Generator {
	out := make([]Generator, len(m.gs))
	for i, g := range m.gs {
		out[i] = update(g, ctx, ev)
	}
	return Mix(out...)
}

// FlipFlop takes operations from a and b in turn, and is done when the one
// whose turn it is is done. Events go to both.
func FlipFlop(a, b Generator) Generator { return &flipFlop{a, b} }

type flipFlop struct{ now, then Generator }

func (f *flipFlop) Op(ctx Context) Offer {
	o := ask(f.now, ctx)
	if o.State == Ready {
		o.Next = &flipFlop{f.then, o.Next}
	}
	return o
}

func (f *flipFlop) Update(ctx Context, ev *histories.Op) Generator {
	return &flipFlop{update(f.now, ctx, ev), update(f.then, ctx, ev)}
}

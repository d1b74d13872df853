package dsl

import (
	"slices"
	"time"

	"github.com/jepsentest/go/histories"
)

// Any offers the soonest operation of all of gs; among equals one is drawn, with
// equal chances. Only the one it came from moves on. Events go to all of them.
// It is done when all are.
func Any(gs ...Generator) Generator { return choiceOf(even(gs...), false) }

// ShortestAny is like [Any], but done as soon as one of gs is: to run a workload
// until the script of the nemesis ends.
func ShortestAny(gs ...Generator) Generator {
	if slices.Contains(gs, nil) {
		return nil
	}
	return choiceOf(even(gs...), true)
}

// Mix takes each operation from one of gs, drawn with equal chances. When the
// one drawn is done it is left out; when it is pending, or has something only
// for later, the others are tried. So a mix is pending only if all are, and
// never waits while one of gs has an operation that is due. Events go to all
// of them.
//
// Mix is [Any] under the name that says what is meant: alternatives of which
// all are ready nearly always.
func Mix(gs ...Generator) Generator { return choiceOf(even(gs...), false) }

// Weighted is a generator and its share of a mix.
type Weighted struct {
	// Weight is how likely it is drawn, in relation to the weights of the
	// others. Zero or less: never.
	Weight int
	Gen    Generator
}

// even gives all of gs the weight 1.
func even(gs ...Generator) []Weighted {
	ws := make([]Weighted, len(gs))
	for i, g := range gs {
		ws[i] = Weighted{1, g}
	}
	return ws
}

// MixWeighted is [Mix] with chances in proportion to weights.
func MixWeighted(ws ...Weighted) Generator { return choiceOf(ws, false) }

func choiceOf(ws []Weighted, shortest bool) Generator {
	b := newBunch(len(ws))
	for _, w := range ws {
		if w.Gen != nil && w.Weight > 0 {
			b.add(w.Gen, w.Weight)
		}
	}
	switch len(b.gs) {
	case 0:
		return nil
	case 1:
		return b.gs[0]
	}
	return &choice{members: b, shortest: shortest}
}

// choice is a state of Any, Mix and ShortestAny. The members are shared with
// its twin; what distinguishes a successor that has not been taken yet is only
// the change that is to be made then.
type choice struct {
	members  *bunch
	change   change
	shortest bool
	other    *choice
}

func (c *choice) twin() **choice { return &c.other }

func (c *choice) Op(ctx Context) (o Offer) {
	b := settle(ctx, c.members, &c.change)
	i := b.choose(&o, ctx, nil, c.shortest)
	if o.State == Ready {
		if c.other == nil {
			b = b.clone() // what was written down stays as it is
		}
		n := successor(c, ctx)
		n.members, n.change = b, change{i + 1, o.Next}
		o.Next = n
	}
	return o
}

func (c *choice) Update(ctx Context, ev *histories.Op) Generator {
	b := settle(ctx, c.members, &c.change)
	if b == c.members && (c.other == nil || ctx.ahead) {
		b = b.clone()
	}
	for i, g := range b.gs {
		if g != nil {
			b.set(i, g.Update(ctx, ev))
		}
	}
	if b.live == 0 || c.shortest && b.live < len(b.gs) {
		return nil
	}
	c = running(c, ctx)
	c.members, c.change = b, change{}
	return c
}

// change is what distinguishes a successor from its predecessor: that member
// at−1 has become g. The zero change is none.
type change struct {
	at int
	g  Generator
}

// settle returns the members of a state. That the state is asked or updated
// means that it has been taken and its predecessor is no longer needed: its
// change is made for good. But if it is only looked at ahead, in a copy.
func settle(ctx Context, b *bunch, c *change) *bunch {
	switch {
	case c.at == 0:
		return b
	case ctx.ahead:
		b = b.clone()
		b.set(c.at-1, c.g)
	default:
		b.set(c.at-1, c.g)
		*c = change{}
	}
	return b
}

// bunch is a number of generators, one of which makes the next operation.
type bunch struct {
	gs      []Generator // nil once done
	weights []int
	live    int // how many of gs are not nil
	total   int // the weights of those
}

func newBunch(size int) *bunch {
	return &bunch{gs: make([]Generator, 0, size), weights: make([]int, 0, size)}
}

func (b *bunch) add(g Generator, weight int) {
	b.gs, b.weights = append(b.gs, g), append(b.weights, weight)
	if g != nil {
		b.live++
		b.total += weight
	}
}

func (b *bunch) clone() *bunch {
	c := *b
	c.gs = slices.Clone(b.gs)
	return &c
}

// set replaces generator i, which was not nil.
func (b *bunch) set(i int, g Generator) {
	b.gs[i] = g
	if g == nil {
		b.live--
		b.total -= b.weights[i]
	}
}

// choose sets best, which must be the zero Offer, to the soonest offer, and
// returns who made it. Generator i sees the threads of views[i]; nil means those
// of ctx. It asks in random order, drawing in proportion to the weights from
// those that it has not asked yet, and stops at the first operation that is due,
// which nothing can beat. So among those that are due, and among equals that are
// for later, each wins in proportion to its weight. If all is true it asks every
// one, and one that is done makes the whole done.
//
// Offers are large: it is for speed that they are written where they are needed.
func (b *bunch) choose(best *Offer, ctx Context, views []*mask, all bool) (from int) {
	if all && b.live < len(b.gs) {
		return 0
	}
	var few [4]uint64
	asked := few[:]
	if len(b.gs) > 64*len(few) {
		asked = make([]uint64, (len(b.gs)+63)/64)
	}
	var another Offer
	var wake time.Duration
	total := b.total
	for n := b.live; n > 0; n-- {
		r := 0
		if n > 1 {
			r = ctx.Rand().IntN(total)
		}
		i := b.pick(r, asked)
		asked[i/64] |= 1 << (i % 64)
		total -= b.weights[i]
		view := ctx
		if views != nil {
			view.mask = views[i]
		}
		if best.State != Ready {
			before := best.State
			*best = b.gs[i].Op(view)
			switch best.State {
			case Ready:
				from = i
				if best.Op.Time <= ctx.Time && !all {
					return from
				}
			case Pending:
				wake = sooner(wake, best.Wake)
			case Done:
				if all {
					return 0
				}
				best.State = before // it stays pending if one was
			}
			continue
		}
		another = b.gs[i].Op(view)
		switch {
		case another.State == Done && all:
			*best = another
			return 0
		case another.State == Ready && another.Op.Time < best.Op.Time:
			*best, from = another, i
			if best.Op.Time <= ctx.Time && !all {
				return from
			}
		case another.State == Pending:
			wake = sooner(wake, another.Wake)
		}
	}
	if best.State == Pending || best.State == Ready && wake != 0 && wake < best.Op.Time {
		// Before the soonest operation is due, there may be a sooner one.
		*best = Offer{State: Pending, Wake: wake}
	}
	return from
}

// pick returns the generator that has the share r of the weights of those that
// are neither done nor asked.
func (b *bunch) pick(r int, asked []uint64) int {
	for i, g := range b.gs {
		if g == nil || asked[i/64]&(1<<(i%64)) != 0 {
			continue
		}
		if r -= b.weights[i]; r < 0 {
			return i
		}
	}
	panic("dsl: the weights of a choice do not add up")
}

package dsl

import "github.com/jepsentest/go/histories"

// Synchronize waits until every thread in view is free, and is then g. Named
// threads are in view too unless g is restricted: a nemesis that is busy holds
// up a phase that includes it.
func Synchronize(g Generator) Generator {
	if g == nil {
		return nil
	}
	return &synchronize{g: g}
}

type synchronize struct {
	g     Generator
	other *synchronize
}

func (s *synchronize) twin() **synchronize { return &s.other }

func (s *synchronize) Op(ctx Context) Offer {
	if !ctx.AllFree() {
		return pending()
	}
	return s.g.Op(ctx)
}

func (s *synchronize) Update(ctx Context, ev *histories.Op) Generator {
	g := s.g.Update(ctx, ev)
	if g == nil {
		return nil
	}
	s = running(s, ctx)
	s.g = g
	return s
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

// Then runs first and, when all its operations have completed, second.
func Then(first, second Generator) Generator { return Seq(first, Synchronize(second)) }

// UntilOK runs g until one of its operations completes OK. Others that are in
// flight then may complete OK too, but no more are begun. If g is done before,
// it waits for those in flight, and ends.
func UntilOK(g Generator) Generator {
	if g == nil {
		return nil
	}
	return &untilOK{g: g}
}

type untilOK struct {
	g Generator
	// mine are the threads that are busy with an operation of g: a thread has
	// one at a time.
	mine  []uint64
	other *untilOK
}

func (u *untilOK) twin() **untilOK { return &u.other }

func (u *untilOK) waiting() bool {
	for _, w := range u.mine {
		if w != 0 {
			return true
		}
	}
	return false
}

// split gives the two twins memory of their own for mine.
func (u *untilOK) split(ctx Context) {
	u.mine = append(make([]uint64, 0, len(ctx.threads.free)), u.mine...)[:len(ctx.threads.free)]
	u.other.mine = make([]uint64, len(u.mine))
}

func (u *untilOK) Op(ctx Context) (o Offer) {
	o = ask(u.g, ctx)
	switch {
	case o.State == Ready:
		n := successor(u, ctx)
		if u.other != n {
			n.split(ctx)
		}
		copy(n.mine, u.mine)
		n.g = o.Next
		if t, ok := ctx.Thread(o.Op.Process); ok && o.Op.Kind == Invoke {
			n.mine[t/64] |= 1 << (t % 64)
		}
		o.Next = n
	case o.State == Done && u.waiting():
		return pending() // one of them may yet succeed
	}
	return o
}

func (u *untilOK) Update(ctx Context, ev *histories.Op) Generator {
	g := update(u.g, ctx, ev)
	t, ok := ctx.Thread(ev.Process)
	mine := ok && u.mine != nil && u.mine[t/64]&(1<<(t%64)) != 0 && !ev.IsInvocation()
	if mine && ev.Type == histories.OK {
		return nil
	}
	next := running(u, ctx)
	if next != u {
		next.split(ctx)
	}
	next.g = g
	if mine {
		next.mine[t/64] &^= 1 << (t % 64)
	}
	return next
}

package dsl

import "github.com/jepsentest/go/histories"

// Map changes every operation of g. f must not change Process or make Time
// earlier, and must not have effects.
func Map(f func(ctx Context, op Op) Op, g Generator) Generator {
	if g == nil {
		return nil
	}
	return &mapOp{f: f, g: g}
}

// RenameF changes the f of every operation of g by a table. An f that the table
// lacks stays as it is. It lets generators of different origin share a test
// without their names clashing.
func RenameF(table map[string]string, g Generator) Generator {
	return Map(func(_ Context, op Op) Op {
		if f, ok := table[op.F]; ok {
			op.F = f
		}
		return op
	}, g)
}

type mapOp struct {
	f     func(Context, Op) Op
	g     Generator
	other *mapOp
}

func (m *mapOp) twin() **mapOp { return &m.other }

func (m *mapOp) Op(ctx Context) (o Offer) {
	o = m.g.Op(ctx)
	if o.State != Ready {
		return o
	}
	o.Op = m.f(ctx, o.Op)
	if o.Next != nil {
		n := successor(m, ctx)
		n.g = o.Next
		o.Next = n
	}
	return o
}

func (m *mapOp) Update(ctx Context, ev *histories.Op) Generator {
	g := m.g.Update(ctx, ev)
	if g == nil {
		return nil
	}
	m = running(m, ctx)
	m.g = g
	return m
}

// Filter lets only those operations of g through that keep accepts; the others
// are dropped, as if g had never offered them. It panics when keep refuses a
// thousand in a row. keep must not have effects. Each refusal costs allocations.
//
// Refusals are not remembered: what has been dropped is gone over again at the
// next question, and when g is finite and what comes next depends on chance, or
// on who is free, the same may then be kept. Whether such a Filter is done is as
// uncertain: give it an endless g, and limit it from outside.
func Filter(keep func(Op) bool, g Generator) Generator {
	if g == nil {
		return nil
	}
	return &filter{keep: keep, g: g}
}

type filter struct {
	keep  func(Op) bool
	g     Generator
	other *filter
}

func (f *filter) twin() **filter { return &f.other }

func (f *filter) Op(ctx Context) Offer {
	g, look := f.g, ctx
	for range maxEmpty {
		o := ask(g, look)
		if o.State != Ready {
			return o
		}
		if f.keep(o.Op) {
			if o.Next != nil {
				n := successor(f, ctx)
				n.g = o.Next
				o.Next = n
			}
			return o
		}
		g, look = o.Next, ctx.Ahead()
	}
	panic("dsl: Filter refused 1000 operations in a row; it would never let one through")
}

func (f *filter) Update(ctx Context, ev *histories.Op) Generator {
	g := f.g.Update(ctx, ev)
	if g == nil {
		return nil
	}
	f = running(f, ctx)
	f.g = g
	return f
}

// OnUpdate calls f at every event, in place of telling g: f decides what the
// generator becomes, and passes the event on if it wants to. Unlike other
// functions in this package, f may have effects: it is called once for each
// event. When it has passed the event on, it must go on with what g's Update
// returned, or with a generator that has not begun, but not with g.
func OnUpdate(f func(g Generator, ctx Context, ev *histories.Op) Generator, g Generator) Generator {
	if g == nil {
		return nil
	}
	return &onUpdate{f: f, g: g}
}

type onUpdate struct {
	f     func(Generator, Context, *histories.Op) Generator
	g     Generator
	other *onUpdate
}

func (u *onUpdate) twin() **onUpdate { return &u.other }

func (u *onUpdate) Op(ctx Context) (o Offer) {
	o = u.g.Op(ctx)
	if o.State == Ready && o.Next != nil {
		n := successor(u, ctx)
		n.g = o.Next
		o.Next = n
	}
	return o
}

func (u *onUpdate) Update(ctx Context, ev *histories.Op) Generator {
	g := u.f(u.g, ctx, ev)
	if g == nil {
		return nil
	}
	u = running(u, ctx)
	u.g = g
	return u
}

// Watch calls f with every event that reaches it, and passes it on to g. It is
// [OnUpdate] for those who only look: to measure, to remember. It goes on to
// look when g is done, until the generator around it has gone on to another.
func Watch(f func(ev *histories.Op), g Generator) Generator {
	if g == nil {
		return nil
	}
	return &watch{f: f, g: g}
}

type watch struct {
	f     func(*histories.Op)
	g     Generator // nil when done
	other *watch
}

func (w *watch) twin() **watch { return &w.other }

func (w *watch) Op(ctx Context) (o Offer) {
	o = ask(w.g, ctx)
	if o.State == Ready {
		n := successor(w, ctx)
		n.g = o.Next
		o.Next = n
	}
	return o
}

func (w *watch) Update(ctx Context, ev *histories.Op) Generator {
	w.f(ev)
	g := update(w.g, ctx, ev)
	w = running(w, ctx)
	w.g = g
	return w
}

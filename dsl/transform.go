package dsl

import (
	"github.com/jepsentest/go/histories"
)

// Map changes every operation of g. f must not change Process or make Time earlier.
func Map(f func(ctx Context, op Op) Op, g Generator) Generator {
	if g == nil {
		return nil
	}
	return &mapOp{f, g}
}

// RenameF changes the f of every operation of g by a table. An f that the table
// lacks stays as it is.
func RenameF(table map[string]string, g Generator) Generator {
	return Map(func(_ Context, op Op) Op {
		if f, ok := table[op.F]; ok {
			op.F = f
		}
		return op
	}, g)
}

type mapOp struct {
	f func(Context, Op) Op
	g Generator
}

func (m *mapOp) Op(ctx Context) Offer {
	o := m.g.Op(ctx)
	if o.State == Ready {
		o.Op = m.f(ctx, o.Op)
		o.Next = Map(m.f, o.Next)
	}
	return o
}

func (m *mapOp) Update(ctx Context, ev *histories.Op) Generator {
	return Map(m.f, m.g.Update(ctx, ev))
}

// Filter lets only those operations of g through that keep accepts; the others
// are dropped, as if g had never offered them.
func Filter(keep func(Op) bool, g Generator) Generator {
	if g == nil {
		return nil
	}
	return &filter{keep, g}
}

type filter struct {
	keep func(Op) bool
	g    Generator
}

func (f *filter) Op(ctx Context) Offer {
	g := f.g
	for range maxEmpty {
		o := ask(g, ctx)
		if o.State != Ready {
			return o
		}
		if f.keep(o.Op) {
			o.Next = Filter(f.keep, o.Next)
			return o
		}
		g = o.Next
	}
	panic("dsl: Filter refused 1000 operations in a row; it would never let one through")
}

func (f *filter) Update(ctx Context, ev *histories.Op) Generator {
	return Filter(f.keep, f.g.Update(ctx, ev))
}

// OnUpdate calls f at every event, in place of telling g: f decides what the
// generator becomes, and passes the event on if it wants to.
func OnUpdate(f func(g Generator, ctx Context, ev *histories.Op) Generator, g Generator) Generator {
	if g == nil {
		return nil
	}
	return &onUpdate{f, g}
}

type onUpdate struct {
	f func(Generator, Context, *histories.Op) Generator
	g Generator
}

func (u *onUpdate) Op(ctx Context) Offer {
	o := u.g.Op(ctx)
	if o.State == Ready {
		o.Next = OnUpdate(u.f, o.Next)
	}
	return o
}

func (u *onUpdate) Update(ctx Context, ev *histories.Op) Generator {
	return OnUpdate(u.f, u.f(u.g, ctx, ev))
}

// Trace calls log with every offer and every event of g.
func Trace(log func(format string, args ...any), name string, g Generator) Generator {
	if g == nil {
		return nil
	}
	return &trace{log, name, g}
}

type trace struct {
	log  func(string, ...any)
	name string
	g    Generator
}

func (t *trace) Op(ctx Context) Offer {
	o := t.g.Op(ctx)
	switch o.State {
	case Ready:
		t.log("%s at %v: offers %s %v to process %v at %v", t.name, ctx.Time, o.Op.F, o.Op.Value, o.Op.Process, o.Op.Time)
		o.Next = Trace(t.log, t.name, o.Next)
	case Pending:
		t.log("%s at %v: pending", t.name, ctx.Time)
	default:
		t.log("%s at %v: done", t.name, ctx.Time)
	}
	return o
}

func (t *trace) Update(ctx Context, ev *histories.Op) Generator {
	t.log("%s at %v: event %v", t.name, ctx.Time, ev)
	return Trace(t.log, t.name, t.g.Update(ctx, ev))
}

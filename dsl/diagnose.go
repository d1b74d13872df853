package dsl

import (
	"fmt"

	"github.com/jepsentest/go/histories"
)

// Trace calls log with every offer and every event of g, and with the panics
// that come out of it. It logs every question, also those whose answer is not
// taken.
func Trace(log func(format string, args ...any), name string, g Generator) Generator {
	if g == nil {
		return nil
	}
	return &trace{log: log, name: name, g: g}
}

type trace struct {
	log   func(string, ...any)
	name  string
	g     Generator
	other *trace
}

func (t *trace) twin() **trace { return &t.other }

// panicking logs that a panic passes by. It does not stop it.
func (t *trace) panicking(ctx Context, during string) {
	if r := recover(); r != nil {
		t.log("%s at %v: panics when %s: %v", t.name, ctx.Time, during, r)
		panic(r)
	}
}

func (t *trace) Op(ctx Context) (o Offer) {
	defer t.panicking(ctx, "asked")
	o = t.g.Op(ctx)
	switch o.State {
	case Ready:
		t.log("%s at %v: offers %s %v to process %v at %v", t.name, ctx.Time, o.Op.F, o.Op.Value, o.Op.Process, o.Op.Time)
		if o.Next != nil {
			n := successor(t, ctx)
			n.g = o.Next
			o.Next = n
		}
	case Pending:
		t.log("%s at %v: pending", t.name, ctx.Time)
	default:
		t.log("%s at %v: done", t.name, ctx.Time)
	}
	return o
}

func (t *trace) Update(ctx Context, ev *histories.Op) Generator {
	defer t.panicking(ctx, "updated")
	t.log("%s at %v: event %v", t.name, ctx.Time, ev)
	g := t.g.Update(ctx, ev)
	if g == nil {
		return nil
	}
	t = running(t, ctx)
	t.g = g
	return t
}

// BrokenError is the value with which [Validate] panics: a generator panicked,
// or offered what it must not.
type BrokenError struct {
	// Name is what the generator was called when given to Validate.
	Name string
	// Cause is an error, or what the generator panicked with.
	Cause any
	// At describes the situation: the time, what was asked or told.
	At string
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("generator %s, %s: %v", e.Name, e.At, e.Cause)
}

// Unwrap returns the cause, if it is an error.
func (e *BrokenError) Unwrap() error {
	err, _ := e.Cause.(error)
	return err
}

// Validate checks every offer of g against the contract, where g sits among
// others: that the process is in view and free, the time not past. What is wrong,
// and every panic in g, becomes a panic with a [*BrokenError] that says which
// generator it was and what had been asked of it. Runs check the generator as a
// whole; Validate finds the part that is broken.
func Validate(name string, g Generator) Generator {
	if g == nil {
		return nil
	}
	return &validate{name: name, g: g}
}

type validate struct {
	name  string
	g     Generator
	other *validate
}

func (v *validate) twin() **validate { return &v.other }

func (v *validate) explain(at func() string) {
	if r := recover(); r != nil {
		if inner, ok := r.(*BrokenError); ok {
			panic(inner) // the innermost knows best
		}
		panic(&BrokenError{v.name, r, at()})
	}
}

func (v *validate) Op(ctx Context) (o Offer) {
	defer v.explain(func() string {
		return fmt.Sprintf("asked at %v with %d of %d threads free", ctx.Time, ctx.FreeLen(), ctx.Len())
	})
	o = v.g.Op(ctx)
	if o.State == Ready {
		if _, err := Check(ctx, o.Op); err != nil {
			panic(err)
		}
		if o.Op.Time < ctx.Time {
			panic(fmt.Errorf("operation %q is for the time %v, which is past", o.Op.F, o.Op.Time))
		}
		if o.Next != nil {
			n := successor(v, ctx)
			n.g = o.Next
			o.Next = n
		}
	}
	return o
}

func (v *validate) Update(ctx Context, ev *histories.Op) Generator {
	defer v.explain(func() string { return fmt.Sprintf("told at %v of %v", ctx.Time, ev) })
	g := v.g.Update(ctx, ev)
	if g == nil {
		return nil
	}
	v = running(v, ctx)
	v.g = g
	return v
}

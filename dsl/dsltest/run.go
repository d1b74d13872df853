package dsltest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/histories"
)

// run is one run of a generator. What happens is drawn; what is drawn depends
// on the seed alone, and on what the generator does.
type run struct {
	o       Options
	rng     *rand.Rand
	threads *dsl.Threads
	// probe sits between the generator and what restricts it, to see the view.
	gen    dsl.Generator
	now    time.Duration
	flight []flying
	log    strings.Builder
	err    error
}

// flying is an operation in flight.
type flying struct {
	op     histories.Op
	silent bool // not an event
}

func newRun(o Options, seed uint64, immutably bool, g dsl.Generator) *run {
	r := &run{o: o, rng: rand.New(rand.NewPCG(seed, 1)), threads: dsl.NewThreads(o.Clients, seed, o.Named...)}
	r.threads.InVirtualTime()
	if immutably {
		r.threads.Immutably()
	}
	if g == nil {
		return r
	}
	r.gen = &probe{r, g}
	switch seed % 3 {
	case 1:
		r.gen = dsl.OnThreads(someThreads, r.gen)
	case 2:
		r.gen = dsl.Clients(r.gen)
	}
	return r
}

func (r *run) story() string { return tail(r.log.String()) }

func (r *run) note(format string, args ...any) { fmt.Fprintf(&r.log, format+"\n", args...) }

// fail records the first thing that is wrong.
func (r *run) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *run) run() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	for range r.o.Steps {
		if r.gen == nil || r.err != nil {
			break
		}
		o := r.gen.Op(r.threads.Context(r.now))
		if r.err != nil {
			break
		}
		switch {
		case o.State == dsl.Done:
			r.stayDone()
			return r.err
		case !r.o.Alone && r.rng.IntN(8) == 0 && r.stranger():
		case o.State == dsl.Ready && o.Op.Time <= r.now:
			r.take(o)
		case len(r.flight) > 0 && (r.rng.IntN(3) > 0 || o.State == dsl.Pending && o.Wake == 0):
			r.complete()
		case o.State == dsl.Ready:
			r.now = o.Op.Time
		case o.Wake > r.now:
			r.now = o.Wake
		default:
			return r.err // it waits for something that does not happen here
		}
		if r.rng.IntN(4) == 0 && len(r.flight) > 0 {
			r.complete()
		}
	}
	for len(r.flight) > 0 && r.err == nil {
		r.complete()
	}
	return r.err
}

// take takes an offer.
func (r *run) take(o dsl.Offer) {
	th, err := dsl.Check(r.threads.Context(r.now), o.Op)
	if err != nil {
		r.fail("%v", err)
		return
	}
	op := histories.Op{Time: r.now, Process: o.Op.Process, F: o.Op.F, Value: o.Op.Value, Extra: o.Op.Extra}
	r.gen = o.Next
	r.dispatch(th, op, o.Op.Kind != dsl.Invoke)
}

// stranger invokes an operation that the generator does not know, and returns
// false if nobody is free to do it.
func (r *run) stranger() bool {
	th, ok := r.threads.Context(r.now).SomeFree()
	if !ok {
		return false
	}
	r.dispatch(th, histories.Op{Time: r.now, Process: r.threads.Process(th), F: "stranger",
		Value: oddValues[r.rng.IntN(len(oddValues))]}, false)
	return true
}

func (r *run) dispatch(th dsl.Thread, op histories.Op, silent bool) {
	if !op.Process.IsClient() {
		op.Type, op.Phase = histories.Info, histories.Begin
	}
	r.threads.Busy(th)
	r.flight = append(r.flight, flying{op, silent})
	if silent {
		r.note("%d: %v begins %s", r.now, op.Process, op.F)
		return
	}
	r.update(op)
}

// complete lets any of the operations in flight complete, in any way.
func (r *run) complete() {
	i := r.rng.IntN(len(r.flight))
	f := r.flight[i]
	r.flight = append(r.flight[:i], r.flight[i+1:]...)
	r.now += time.Duration(r.rng.IntN(20))
	th, _ := r.threads.Thread(f.op.Process)
	r.threads.Free(th)
	if f.silent {
		r.note("%d: %v ends %s", r.now, f.op.Process, f.op.F)
		return
	}
	op := f.op
	op.Time = r.now
	if op.Process.IsClient() {
		op.Type = []histories.Type{histories.OK, histories.OK, histories.Fail, histories.Info}[r.rng.IntN(4)]
		if r.rng.IntN(10) == 0 {
			op.Value = oddValues[r.rng.IntN(len(oddValues))]
		}
	} else {
		op.Phase = histories.End
	}
	r.update(op)
	if op.Process.IsClient() && op.Type == histories.Info {
		r.threads.Retire(th)
	}
}

func (r *run) update(op histories.Op) {
	r.note("%d: %v %v%v %s %v", r.now, op.Process, op.Type, op.Phase, op.F, op.Value)
	if r.gen != nil {
		r.gen = r.gen.Update(r.threads.Context(r.now), &op)
	}
}

// stayDone checks that the generator remains done while everything completes,
// strangers come, and ages pass.
func (r *run) stayDone() {
	r.note("%d: done", r.now)
	for range 10 {
		if len(r.flight) > 0 {
			r.complete()
		} else if !r.o.Alone {
			r.stranger()
		}
		if r.gen == nil || r.err != nil {
			return
		}
		for _, at := range []time.Duration{r.now, r.now + 1, farFuture} {
			ctx := r.threads.Context(at)
			if o := r.gen.Op(ctx); o.State == dsl.Ready || o.State == dsl.Pending && ctx.AllFree() {
				r.fail("it was done, and at %v it is not: %s", at, describe(o))
				return
			}
		}
	}
}

// probe checks every answer of the generator inside it.
type probe struct {
	r *run
	g dsl.Generator
}

func (p *probe) Op(ctx dsl.Context) dsl.Offer {
	first := describe(p.g.Op(ctx.Again()))
	o := p.g.Op(ctx.Again())
	if again := describe(o); again != first {
		p.r.fail("asked twice at %v, it answered\n\t%s\nand\n\t%s", ctx.Time, first, again)
	}
	switch o.State {
	case dsl.Ready:
		if _, err := dsl.Check(ctx, o.Op); err != nil {
			p.r.fail("at %v: %v", ctx.Time, err)
		} else if o.Op.Time < ctx.Time {
			p.r.fail("at %v: operation %q is for the time %v, which is past", ctx.Time, o.Op.F, o.Op.Time)
		}
		if o.Next != nil {
			o.Next = &probe{p.r, o.Next}
		}
	case dsl.Pending:
		if o.Wake != 0 && o.Wake <= ctx.Time {
			p.r.fail("at %v: it is pending and wants to be woken at %v, which is not to come", ctx.Time, o.Wake)
		}
	}
	return o
}

func (p *probe) Update(ctx dsl.Context, ev *histories.Op) dsl.Generator {
	if g := p.g.Update(ctx, ev); g != nil {
		return &probe{p.r, g}
	}
	return nil
}

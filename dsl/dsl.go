// Package dsl is the language in which a test says what its clients and its
// nemesis do, and when: generators.
//
// A [Generator] is an immutable value. Asked for an operation, it offers one
// (now, or at a later time), or says that it has none yet, or that it is done;
// with an offer comes the generator to use if the offer is taken. Generators
// are composed from small ones:
//
//	dsl.Phases(
//		dsl.TimeLimit(time.Minute,
//			dsl.Any(
//				dsl.Clients(dsl.Stagger(time.Second/100, dsl.Mix(reads, writes))),
//				dsl.Nemesis(dsl.Cycle(dsl.Seq(
//					dsl.Sleep(5*time.Second),
//					dsl.Once(dsl.Op{F: "start-partition"}),
//					dsl.Sleep(5*time.Second),
//					dsl.Once(dsl.Op{F: "stop-partition"}),
//				))))),
//		dsl.Nemesis(dsl.Once(dsl.Op{F: "stop-partition"})),
//		dsl.Clients(dsl.EachThread(finalRead)),
//	)
//
// # The contract of a generator
//
// All combinators rely on it, and dsltest.Check checks it:
//
//   - Asking has no effects. A generator may be asked many times before one of
//     its offers is taken, and most offers are not.
//   - What comes with "pending", and with an offer for a later time, is
//     discarded: the same generator is asked again later.
//   - A generator that is done stays done: it offers nothing more. (While some
//     thread is busy it may call itself pending again.)
//   - Operations are offered only to processes that are free and in view in the
//     context, and never for a time that is past.
//   - An update may bring any event of a thread in view, also of operations that
//     other generators made.
//
// Randomness comes from [Context.Rand]. It yields the same numbers whenever it
// is asked in the same situation, so that one seed and the same completions
// give the same operations, however often a generator was asked in between.
//
// # Who owns a generator
//
// A test that runs for hours takes billions of steps, so a step must not cost an
// allocation. What a test wrote down is never changed: it may be kept, used at
// several places, and by several tests at a time. But the generator that comes
// with an offer or from an update is running: it belongs to whoever goes on with
// it, alone, and goes on with the memory of its predecessors. For those who use
// generators through this package that makes no difference. Those who write
// combinators, or drive generators, keep to three rules:
//
//   - One line goes on. When Next has been asked or updated, the generator that
//     offered it, and every other offer of that, is void; when a generator has
//     been updated, only what Update returned counts.
//   - An offer is valid until the generator that made it is asked again. To ask
//     a Next whose offer has not been taken, to look ahead, ask it with
//     [Context.Ahead]: that leaves the past as it was.
//   - What is to begin several times, as in Cycle, must not have begun.
//
// A generator of one's own may simply return new values, and never change. Or
// it reuses memory as those here do: where [Context.MayReuse] allows it, a state
// that came from an offer may write its successor over its predecessor, and may
// change when updated.
//
// Package dsl/simulate runs generators in virtual time, jepsentest.Run runs them
// against a database, and package dsl/dsltest tests those that one has written.
package dsl

import (
	"fmt"
	"time"

	"github.com/jepsentest/go/histories"
)

// Kind says what is to be done with an operation.
type Kind uint8

// The kinds of operations.
const (
	// Invoke hands the operation to a client or to the nemesis. It is recorded.
	Invoke Kind = iota
	// SleepKind keeps the thread busy for the time in Value (an integer of
	// nanoseconds). It is not recorded, and no event.
	SleepKind
	// LogKind writes Value (a text) to the log of the test. It is not recorded,
	// and no event.
	LogKind
)

// Op is an operation that a generator offers. A test writes F and Value (and,
// seldom, Kind and Extra); the rest is filled in when the operation is offered.
type Op struct {
	F     string
	Value histories.Value
	Extra []histories.Field
	Kind  Kind

	// Process is who is to do it: a free process of the context.
	Process histories.Process
	// Time is when, measured from the beginning of the test. An operation
	// whose time has come or passed is due at once.
	Time time.Duration
}

// State says what a generator answered.
type State uint8

// The answers of a generator.
const (
	// Done: there is nothing more to come, ever.
	Done State = iota
	// Pending: there is nothing now; ask again when something has happened.
	Pending
	// Ready: here is an operation.
	Ready
)

// Offer is the answer of a generator that was asked for an operation. The zero
// Offer means done.
type Offer struct {
	State State
	// Op is what is offered, when State is Ready.
	Op Op
	// Wake, when State is Pending, is the time at which the answer will be
	// another even if nothing happens until then; 0 if there is none.
	Wake time.Duration
	// Next is the generator to use if the offer is taken.
	Next Generator
}

// Generator offers operations. Implementations must be immutable, or must at
// least not change in any way that could be noticed by those who keep to the
// rules of the package comment.
type Generator interface {
	// Op offers an operation to a free process of ctx, or answers Pending or
	// Done. See the package comment for the contract.
	Op(ctx Context) Offer
	// Update tells the generator what happened: ev is an operation that has
	// just been invoked, or has just completed. It returns the generator to use
	// from now on; nil means that it is done. ctx.Time is the time of the event.
	// At an invocation the thread is busy already; at a completion it is free
	// again, and still runs the process of the event. ev is lent for the call.
	Update(ctx Context, ev *histories.Op) Generator
}

// pending makes the answer "not now".
func pending() Offer { return Offer{State: Pending} }

// sooner returns the earlier of two times to wake up at, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// ask asks g, which may be nil: a generator that is done.
func ask(g Generator, ctx Context) Offer {
	if g == nil {
		return Offer{}
	}
	return g.Op(ctx)
}

// update updates g, which may be nil.
func update(g Generator, ctx Context, ev *histories.Op) Generator {
	if g == nil {
		return nil
	}
	return g.Update(ctx, ev)
}

// Check verifies that an offered operation may be dispatched, and returns the
// thread that is to run it. The error says how the generator broke its contract.
func Check(ctx Context, op Op) (Thread, error) {
	t, ok := ctx.Thread(op.Process)
	switch {
	case !ok:
		return 0, fmt.Errorf("operation %q is for process %v, which no thread runs", op.F, op.Process)
	case ctx.Process(t) != op.Process:
		return 0, fmt.Errorf("operation %q is for process %v, which has crashed (its thread now runs %v)",
			op.F, op.Process, ctx.Process(t))
	case !ctx.Has(t):
		return 0, fmt.Errorf("operation %q is for process %v, which is not in view", op.F, op.Process)
	case !ctx.IsFree(t):
		return 0, fmt.Errorf("operation %q is for process %v, which is busy", op.F, op.Process)
	case op.Kind > LogKind:
		return 0, fmt.Errorf("operation %q is of an unknown kind %d", op.F, op.Kind)
	}
	return t, nil
}

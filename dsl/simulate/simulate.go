// Package simulate runs generators in virtual time, against a function that
// says when and how each operation completes. It is how generators, workloads
// and nemeses are tested: a simulation takes no time, needs no database, and
// gives the same history every time.
//
//	history, err := simulate.Run(gen, simulate.Options{Clients: 2, Complete: simulate.Perfect})
//
// A test of what a generator does is best written as the history it is to give:
//
//	simulate.Golden(t, "testdata/workload.txt", history)
package simulate

import (
	"errors"
	"fmt"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/histories"
)

// ErrStuck is returned when the generator is pending, nothing is in flight, and
// no time would change that, or it is asked to wait [maxIdle] times in a row: the
// real test would hang.
var ErrStuck = errors.New("the generator is pending and nothing is in flight that could change that")

// ErrInvalid is returned when the generator broke its contract: it offered an
// invalid operation, or panicked.
var ErrInvalid = errors.New("invalid generator")

// maxIdle is how many times a generator may have time pass without an operation.
const maxIdle = 100_000

// Completer says how an invocation completes: it returns the completion with
// Type, Value and Error as wanted and Time when it arrives, not before the
// invocation's. Index and Process are set by the simulation. For operations of
// named threads it sets Phase to histories.End and leaves Type alone.
type Completer func(inv histories.Op) histories.Op

// Options of a simulation.
type Options struct {
	// Clients is the number of client threads; 0 means 2.
	Clients int
	// Named are the names of further threads; nil means "nemesis" alone.
	Named []string
	// Seed drives the choices of the generator.
	Seed uint64
	// Complete says how operations complete; nil means [Perfect].
	Complete Completer
	// Max ends the simulation after this many operations; 0 means 10,000.
	Max int
	// Immutably forbids generators to reuse memory, which must make no
	// difference: see dsl.Threads.Immutably.
	Immutably bool
}

// Quick completes every operation at once, successfully.
func Quick(inv histories.Op) histories.Op { return after(inv, 0, histories.OK) }

// Perfect completes every operation successfully after 10 ns.
func Perfect(inv histories.Op) histories.Op { return after(inv, 10, histories.OK) }

// Crashing ends every operation in Info after 10 ns.
func Crashing(inv histories.Op) histories.Op { return after(inv, 10, histories.Info) }

// Imperfect returns a completer by which the operations of each of n client
// threads fail, crash and succeed in turn, after 10 ns each.
func Imperfect(n int) Completer {
	turn := make(map[int64]int)
	return func(inv histories.Op) histories.Op {
		thread := int64(inv.Process) % int64(n)
		turn[thread]++
		return after(inv, 10, []histories.Type{histories.OK, histories.Fail, histories.Info}[turn[thread]%3])
	}
}

func after(inv histories.Op, d time.Duration, t histories.Type) histories.Op {
	inv.Time += d
	if inv.Process.IsClient() {
		inv.Type = t
	} else {
		inv.Phase = histories.End
	}
	return inv
}

// After returns a completer by which every operation takes the time d and ends
// as type t. Operations of named threads take it too, and have no type.
func After(d time.Duration, t histories.Type) Completer {
	return func(inv histories.Op) histories.Op { return after(inv, d, t) }
}

// Run runs g until it is done and everything has completed, and returns the
// history. What is in flight when g is done still reaches its Update. When
// operations complete at the same time, they do in the order of their
// invocation; a completion comes before an invocation that is for a later time,
// and after one for the same.
//
// It returns ErrStuck or ErrInvalid, wrapped, when g is at fault; the history so
// far comes with the error.
func Run(g dsl.Generator, o Options) ([]histories.Op, error) {
	if o.Clients == 0 {
		o.Clients = 2
	}
	if o.Named == nil {
		o.Named = []string{"nemesis"}
	}
	if o.Complete == nil {
		o.Complete = Perfect
	}
	if o.Max == 0 {
		o.Max = 10000
	}
	s := &simulation{o: o, threads: dsl.NewThreads(o.Clients, o.Seed, o.Named...), gen: g}
	s.threads.InVirtualTime()
	if o.Immutably {
		s.threads.Immutably()
	}
	err := s.run()
	return s.history, err
}

// Invocations runs g as [Run] does and returns the invocations alone.
func Invocations(g dsl.Generator, o Options) ([]histories.Op, error) {
	h, err := Run(g, o)
	invs := make([]histories.Op, 0, len(h))
	for i := range h {
		if h[i].IsInvocation() {
			invs = append(invs, h[i])
		}
	}
	return invs, err
}

type simulation struct {
	o       Options
	threads *dsl.Threads
	gen     dsl.Generator
	now     time.Duration
	flight  flight
	history []histories.Op
	invoked int
}

func (s *simulation) run() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("at %v: %w: panic: %v", s.now, ErrInvalid, r)
		}
	}()
	idle := 0
	for s.invoked < s.o.Max {
		var offer dsl.Offer
		if s.gen != nil {
			offer = s.gen.Op(s.threads.Context(s.now))
		}
		next := offer.Op.Time
		if offer.State == dsl.Pending {
			next = offer.Wake
		}
		switch {
		case offer.State == dsl.Ready && next <= s.now:
			idle = 0
			if err := s.invoke(offer); err != nil {
				return err
			}
		case len(s.flight) > 0 && (offer.State == dsl.Done || next == 0 || s.flight[0].op.Time < next ||
			s.flight[0].op.Time == next && offer.State == dsl.Pending):
			idle = 0
			s.complete()
		case offer.State == dsl.Done:
			return nil
		case next <= s.now || idle >= maxIdle:
			return fmt.Errorf("at %v: %w", s.now, ErrStuck)
		default:
			idle++
			s.now = next // and the generator is asked again, as in a real test
		}
	}
	for len(s.flight) > 0 {
		s.complete()
	}
	return nil
}

func (s *simulation) invoke(offer dsl.Offer) error {
	op := offer.Op
	s.now = max(s.now, op.Time)
	th, err := dsl.Check(s.threads.Context(s.now), op)
	if err != nil {
		return fmt.Errorf("at %v: %w: %w", s.now, ErrInvalid, err)
	}
	inv := histories.Op{Time: s.now, Process: op.Process, F: op.F, Value: op.Value, Extra: op.Extra}
	if !inv.Process.IsClient() {
		inv.Type, inv.Phase = histories.Info, histories.Begin
	}
	s.threads.Busy(th)
	s.invoked++
	s.gen = offer.Next
	if op.Kind != dsl.Invoke {
		done := inv
		if d, ok := op.Value.Int(); ok && op.Kind == dsl.SleepKind {
			done.Time += time.Duration(d)
		}
		s.push(done, true)
		return nil
	}
	s.record(inv)
	s.update(&inv)
	done := s.o.Complete(inv)
	done.Process, done.Time = inv.Process, max(done.Time, s.now)
	s.push(done, false)
	return nil
}

func (s *simulation) push(op histories.Op, silent bool) {
	s.flight.push(landing{op, silent, s.invoked})
}

func (s *simulation) complete() {
	l := s.flight.pop()
	s.now = max(s.now, l.op.Time)
	th, _ := s.threads.Thread(l.op.Process)
	s.threads.Free(th)
	if l.silent {
		return
	}
	s.record(l.op)
	s.update(&l.op)
	if l.op.Type == histories.Info {
		s.threads.Retire(th)
	}
}

func (s *simulation) record(op histories.Op) {
	op.Index = int64(len(s.history))
	s.history = append(s.history, op)
}

func (s *simulation) update(ev *histories.Op) {
	if s.gen != nil {
		s.gen = s.gen.Update(s.threads.Context(ev.Time), ev)
	}
}

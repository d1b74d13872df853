// Package simulate runs generators in virtual time, against a function that
// says when and how each operation completes. It is how generators, workloads
// and nemeses are tested: a simulation takes no time, needs no database, and
// gives the same history every time.
//
//	history, err := simulate.Run(gen, simulate.Options{Clients: 2, Complete: simulate.Perfect})
package simulate

import (
	"container/heap"
	"errors"
	"fmt"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/histories"
)

// ErrStuck is returned when the generator is pending, nothing is in flight, and
// no time would change that: the real test would hang.
var ErrStuck = errors.New("the generator is pending and nothing is in flight that could change that")

// ErrInvalid is returned when the generator broke its contract.
var ErrInvalid = errors.New("invalid operation")

// Completer says how an invocation completes: it returns the completion with
// Type, Value and Error as wanted and Time when it arrives, not before the
// invocation's. Index and Process are set by the simulation.
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

// Run runs g until it is done and everything has completed, and returns the
// history. When it returns an error, the history so far comes with it.
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

type simulation struct {
	o       Options
	threads *dsl.Threads
	gen     dsl.Generator
	now     time.Duration
	flight  flight
	history []histories.Op
	invoked int
}

func (s *simulation) run() error {
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
		case offer.State == dsl.Ready && (len(s.flight) == 0 || next <= s.flight[0].op.Time):
			if err := s.invoke(offer); err != nil {
				return err
			}
		case len(s.flight) > 0 && (offer.State != dsl.Pending || next == 0 || s.flight[0].op.Time <= next):
			s.complete()
		case offer.State == dsl.Done:
			return nil
		case next <= s.now:
			return fmt.Errorf("at %v: %w", s.now, ErrStuck)
		default:
			s.now = next
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
	heap.Push(&s.flight, landing{op, silent, s.invoked})
}

func (s *simulation) complete() {
	l := heap.Pop(&s.flight).(landing)
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

// landing is a completion on its way.
type landing struct {
	op     histories.Op
	silent bool // not recorded
	order  int
}

// flight is a heap of completions: the earliest first, in the order of their
// invocations among equal times.
type flight []landing

func (f flight) Len() int { return len(f) }
func (f flight) Less(i, j int) bool {
	if f[i].op.Time != f[j].op.Time {
		return f[i].op.Time < f[j].op.Time
	}
	return f[i].order < f[j].order
}
func (f flight) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *flight) Push(x any)   { *f = append(*f, x.(landing)) }
func (f *flight) Pop() any {
	old := *f
	x := old[len(old)-1]
	*f = old[:len(old)-1]
	return x
}

// Format renders a history one operation per line: time in nanoseconds,
// process, what happens, f and value. It serves as golden output.
func Format(history []histories.Op) string {
	var out []byte
	for _, op := range history {
		what := op.Type.String()
		if op.Phase != histories.NoPhase {
			what = op.Phase.String()
		}
		out = fmt.Appendf(out, "%d %v %s %s %v\n", op.Time.Nanoseconds(), op.Process, what, op.F, op.Value)
	}
	return string(out)
}

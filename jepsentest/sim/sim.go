// Package sim holds databases in memory with bugs that can be switched on: to
// try the framework without a database, and to prove that its checks catch what
// they claim to catch.
//
//	db := sim.NewLists(sim.ListOptions{Bug: sim.LostUpdate, Seed: 7})
//	test.Client = jepsentest.ClientFunc(db.Invoke)
package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jepsentest/go/histories"
)

// Bug is something that a simulated database does wrong.
type Bug string

// The bugs of [Lists].
const (
	// NoBug: transactions are strictly serializable.
	NoBug Bug = ""
	// AbortedRead: what a transaction has appended is visible before it
	// commits, also if it then aborts.
	AbortedRead Bug = "aborted-read"
	// LostUpdate: a transaction writes back whole lists as it had read them,
	// with its own elements; what others appended in between is lost.
	LostUpdate Bug = "lost-update"
	// StaleRead: transactions that only read are served from a replica that
	// lags behind.
	StaleRead Bug = "stale-read"
)

// ListBugs are the bugs that [Lists] can have.
var ListBugs = []Bug{AbortedRead, LostUpdate, StaleRead}

// ListOptions configure [Lists]. The zero value is an honest store.
type ListOptions struct {
	// Bug is what is wrong with it.
	Bug Bug
	// Latency is how long a transaction takes on average; 0 means 1 ms, a
	// negative value no time at all.
	Latency time.Duration
	// Aborts is the share of transactions that abort, Crashes the share whose
	// client gets no answer; half of these have taken effect. 0 means 5 % and
	// 1 %, a negative value none.
	Aborts, Crashes float64
	// Seed drives its random choices.
	Seed uint64
}

// Lists is a store of lists under keys, with transactions of appends and reads.
// Its methods may be called by any number of goroutines.
type Lists struct {
	o ListOptions

	mu    sync.Mutex
	rng   *rand.Rand
	lists map[string][]histories.Value
	// older are snapshots of the lists, for stale reads.
	older []map[string][]histories.Value
}

// NewLists makes an empty store.
func NewLists(o ListOptions) *Lists {
	if o.Latency == 0 {
		o.Latency = time.Millisecond
	}
	if o.Aborts == 0 {
		o.Aborts = 0.05
	}
	if o.Crashes == 0 {
		o.Crashes = 0.01
	}
	return &Lists{o: o, rng: rand.New(rand.NewPCG(o.Seed, 1)), lists: map[string][]histories.Value{}}
}

// abortError says that a transaction certainly had no effect.
type abortError struct{}

func (abortError) Error() string { return "transaction aborted" }

// Definite tells the framework that the operation did not take place.
func (abortError) Definite() bool { return true }

// Code names the kind of error.
func (abortError) Code() string { return "aborted" }

var errNoAnswer = errors.New("connection lost")

// fate is what becomes of a transaction.
type fate int

const (
	commits fate = iota
	aborts
	crashesAfter  // takes effect, but nobody is told
	crashesBefore // takes no effect, and nobody is told
)

func (s *Lists) draw() (f fate, before, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.o.Latency; d > 0 {
		before, after = time.Duration(s.rng.Int64N(int64(d))), time.Duration(s.rng.Int64N(int64(d)))
	}
	switch x := s.rng.Float64(); {
	case x < s.o.Aborts:
		f = aborts
	case x < s.o.Aborts+s.o.Crashes/2:
		f = crashesAfter
	case x < s.o.Aborts+s.o.Crashes:
		f = crashesBefore
	}
	return f, before, after
}

// Invoke runs the transaction in op.Value and returns it with its results.
func (s *Lists) Invoke(ctx context.Context, op *histories.Op) (histories.Value, error) {
	mops, ok := op.Value.Txn()
	if !ok {
		return histories.Value{}, fmt.Errorf("%s %v is no transaction", op.F, op.Value)
	}
	f, before, after := s.draw()
	if err := pause(ctx, before); err != nil {
		return histories.Value{}, err
	}
	var result []histories.Mop
	switch {
	case s.o.Bug == StaleRead && readOnly(mops):
		result = s.readOld(mops)
	case s.o.Bug == LostUpdate:
		result = s.readThenWriteBack(ctx, mops, after, f)
	case s.o.Bug == AbortedRead && f == aborts:
		return histories.Value{}, s.exposeThenAbort(ctx, mops, after)
	case f == aborts:
		return histories.Value{}, abortError{}
	default:
		result = s.apply(mops, f)
	}
	if err := pause(ctx, after); err != nil {
		return histories.Value{}, err
	}
	switch f {
	case aborts:
		return histories.Value{}, abortError{}
	case crashesAfter, crashesBefore:
		return histories.Value{}, errNoAnswer
	}
	return histories.Txn(result...), nil
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func readOnly(mops []histories.Mop) bool {
	return !slices.ContainsFunc(mops, func(m histories.Mop) bool { return m.IsWrite() })
}

func id(key histories.Value) string { return string(key.AppendKey(nil)) }

// run applies mops to lists and returns them with their results. Lists are
// never changed in place: what was read stays as it was.
func run(lists map[string][]histories.Value, mops []histories.Mop) []histories.Mop {
	out := slices.Clone(mops)
	for i, m := range out {
		k := id(m.Key)
		if m.Kind == histories.MopRead {
			if l, ok := lists[k]; ok {
				out[i].Value = histories.List(l...)
			}
			continue
		}
		lists[k] = append(slices.Clip(lists[k]), m.Value)
	}
	return out
}

// apply runs a transaction in one step.
func (s *Lists) apply(mops []histories.Mop, f fate) []histories.Mop {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f == crashesBefore {
		return nil
	}
	s.keepOld()
	return run(s.lists, mops)
}

// staleBy is how many transactions a replica lags behind.
const staleBy = 64

// keepOld remembers the state now and then, when stale reads are wanted.
func (s *Lists) keepOld() {
	if s.o.Bug != StaleRead {
		return
	}
	snapshot := make(map[string][]histories.Value, len(s.lists))
	for k, l := range s.lists {
		snapshot[k] = l
	}
	s.older = append(s.older, snapshot)
	if len(s.older) > staleBy {
		s.older = s.older[1:]
	}
}

func (s *Lists) readOld(mops []histories.Mop) []histories.Mop {
	s.mu.Lock()
	defer s.mu.Unlock()
	lists := s.lists
	if len(s.older) > 0 {
		lists = s.older[s.rng.IntN(len(s.older))]
	}
	return run(lists, mops)
}

// readThenWriteBack reads the lists, takes its time, and writes them back.
func (s *Lists) readThenWriteBack(ctx context.Context, mops []histories.Mop, d time.Duration, f fate) []histories.Mop {
	mine := map[string][]histories.Value{}
	s.mu.Lock()
	for _, m := range mops {
		if l, ok := s.lists[id(m.Key)]; ok {
			mine[id(m.Key)] = l
		}
	}
	s.mu.Unlock()
	result := run(mine, mops)
	_ = pause(ctx, d) // interrupted or not: what is written is the same
	if f == commits || f == crashesAfter {
		s.mu.Lock()
		for _, m := range mops {
			if m.IsWrite() {
				s.lists[id(m.Key)] = mine[id(m.Key)]
			}
		}
		s.mu.Unlock()
	}
	return result
}

// exposeThenAbort lets others see what the transaction appends before it takes
// it back.
func (s *Lists) exposeThenAbort(ctx context.Context, mops []histories.Mop, d time.Duration) error {
	s.mu.Lock()
	run(s.lists, mops)
	s.mu.Unlock()
	_ = pause(ctx, d) // interrupted or not: it aborts
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range mops {
		if m.IsWrite() {
			k := id(m.Key)
			s.lists[k] = slices.DeleteFunc(slices.Clone(s.lists[k]), m.Value.Equal)
		}
	}
	return abortError{}
}

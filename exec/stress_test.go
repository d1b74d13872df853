package exec_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jepsentest/go/exec"
)

// counted is a task of the stress test, and what is known of it.
type counted struct {
	task     *exec.Task[int]
	deps     []*counted
	starts   atomic.Int32
	finished atomic.Bool
	aborted  atomic.Bool // cancelled before it started, or created in vain: must never start
}

// stress holds what the goroutines of the stress test share.
type stress struct {
	x       *exec.Executor
	running atomic.Int32
	failed  atomic.Pointer[error]

	mu    sync.Mutex
	tasks []*counted
}

func (s *stress) fail(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	s.failed.CompareAndSwap(nil, &err)
}

func (s *stress) recent(rng *rand.Rand) *counted {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tasks) == 0 {
		return nil
	}
	return s.tasks[max(0, len(s.tasks)-1-rng.IntN(20))]
}

func (s *stress) create(sub exec.Submitter, rng *rand.Rand) (*counted, error) {
	c := &counted{}
	var deps []*exec.Task[int]
	for range rng.IntN(4) {
		if d := s.recent(rng); d != nil {
			c.deps, deps = append(c.deps, d), append(deps, d.task)
		}
	}
	fate, seed := rng.IntN(16), rng.Uint64()
	var err error
	c.task, err = exec.All(sub, "stress", deps, func(ctx context.Context, in []int) (int, error) {
		return s.function(ctx, c, fate, seed)
	})
	return c, err
}

func (s *stress) function(ctx context.Context, c *counted, fate int, seed uint64) (int, error) {
	if n := s.running.Add(1); int(n) > s.x.Size() {
		s.fail("%d functions run on a pool of %d", n, s.x.Size())
	}
	defer s.running.Add(-1)
	defer c.finished.Store(true)
	if c.starts.Add(1) != 1 || c.aborted.Load() {
		s.fail("started %d times, aborted %v", c.starts.Load(), c.aborted.Load())
	}
	for _, d := range c.deps {
		if !d.finished.Load() {
			s.fail("started before a dependency was done")
		}
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	switch fate {
	case 0:
		return 0, errors.New("fate")
	case 1:
		panic("fate")
	case 2:
		runtime.Goexit()
	case 3, 4, 5: // wait for anything, dependents and each other included
		if d := s.recent(rng); d != nil {
			s.running.Add(-1)
			_, _ = d.task.Wait(ctx)
			if n := s.running.Add(1); int(n) > s.x.Size() {
				s.fail("%d functions run after a wait", n)
			}
		}
	case 6:
		if d := s.recent(rng); d != nil {
			d.task.Cancel()
		}
	case 7:
		child, err := exec.Go(s.x, "child", value(3))
		if err == nil {
			s.running.Add(-1)
			if v, err := child.Wait(ctx); err == nil && v != 3 {
				s.fail("child returned %d", v)
			}
			if n := s.running.Add(1); int(n) > s.x.Size() {
				s.fail("%d functions run after a child", n)
			}
		}
	case 8:
		runtime.Gosched()
	}
	return 1, nil
}

var errStress = errors.New("in vain")

// act does one random thing from outside of tasks.
func (s *stress) act(ctx context.Context, rng *rand.Rand) {
	switch rng.IntN(8) {
	case 0:
		if d := s.recent(rng); d != nil {
			d.task.Cancel()
		}
	case 1:
		if d := s.recent(rng); d != nil {
			short, cancel := context.WithTimeout(ctx, time.Duration(rng.IntN(50))*time.Microsecond)
			_, _ = d.task.Wait(short)
			cancel()
		}
	case 2, 3, 4:
		c, err := s.create(s.x, rng)
		if err == nil {
			s.mu.Lock()
			s.tasks = append(s.tasks, c)
			s.mu.Unlock()
		} else if !errors.Is(err, exec.ErrCancelled) {
			s.fail("create: %w", err)
		}
	default:
		s.txn(rng)
	}
}

// txn cancels a task if it is pending and creates some in its stead, or does not.
func (s *stress) txn(rng *rand.Rand) {
	victim := s.recent(rng)
	var made []*counted
	var cancelled *counted
	err := s.x.Txn(func(tx *exec.Tx) error {
		if victim != nil && tx.State(victim.task) == exec.Pending {
			tx.Cancel(victim.task)
			if tx.State(victim.task) != exec.Cancelled {
				s.fail("a transaction does not see its own cancel")
			}
			if victim.starts.Load() != 0 {
				s.fail("pending, and started")
			}
			if rng.IntN(2) == 0 {
				return errStress
			}
			cancelled = victim
		}
		for range rng.IntN(4) {
			c, err := s.create(tx, rng)
			if err != nil {
				if len(made) > 0 {
					return errStress
				}
				continue
			}
			made = append(made, c)
		}
		return nil
	})
	if err != nil {
		for _, c := range made {
			c.aborted.Store(true)
			if c.task.State() != exec.Cancelled {
				s.fail("rolled back, and %v", c.task.State())
			}
		}
		return
	}
	if cancelled != nil {
		cancelled.aborted.Store(true)
	}
	s.mu.Lock()
	s.tasks = append(s.tasks, made...)
	s.mu.Unlock()
}

// Real goroutines, real interleavings: nothing that may happen in any order deadlocks or
// breaks a guarantee, and every goroutine ends.
func TestStress(t *testing.T) {
	rounds, steps := 20, 300
	if testing.Short() {
		rounds = 5
	}
	goroutines := runtime.NumGoroutine()
	for round := range rounds {
		s := &stress{x: exec.New(1 + round%4)}
		ctx := within(t)
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(round), uint64(g)))
				for range steps {
					s.act(ctx, rng)
				}
			})
		}
		all.Wait()
		if err := s.x.Drain(ctx); err != nil {
			t.Fatalf("round %d: %v: %+v", round, err, s.x.Stats())
		}
		if err := exec.CheckInvariants(s.x); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for _, c := range s.tasks {
			state := c.task.State()
			_, err := c.task.Wait(ctx)
			if (state == exec.Cancelled) != errors.Is(err, exec.ErrCancelled) && state != exec.Done {
				t.Fatalf("round %d: %v and %v", round, state, err)
			}
			if c.aborted.Load() && c.starts.Load() != 0 {
				t.Fatalf("round %d: started after it was cancelled while pending", round)
			}
			if state == exec.Done && err == nil && c.starts.Load() != 1 {
				t.Fatalf("round %d: done after %d starts", round, c.starts.Load())
			}
		}
		if err := s.failed.Load(); err != nil {
			t.Fatalf("round %d: %v", round, *err)
		}
	}
	settled(t, goroutines)
}

// settled fails unless the number of goroutines returns to where it was. The last ones have
// announced their result and have only to return, so it polls, within a limit.
func settled(t *testing.T, want int) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > want; runtime.Gosched() {
		if time.Now().After(limit) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, want %d\n%s", runtime.NumGoroutine(), want, buf[:runtime.Stack(buf, true)])
		}
	}
}

// Transactions move a pair of tasks from one state to another; nobody sees half of it.
func TestTransactionsAreAtomic(t *testing.T) {
	x := exec.New(2)
	defer x.Close()
	gate := make(chan struct{})
	root := must(exec.Go(x, "root", func(context.Context) (int, error) { <-gate; return 0, nil }))
	var a, b *exec.Task[int] // changed and read in transactions only
	replace := func(rng *rand.Rand) {
		err := x.Txn(func(tx *exec.Tx) (err error) {
			oldA, oldB := a, b
			if a != nil {
				tx.Cancel(a, b)
			}
			if a, err = exec.Then(tx, "a", root, same1); err == nil {
				b, err = exec.Then(tx, "b", root, same1)
			}
			if rng.IntN(2) == 0 {
				a, b = oldA, oldB
				err = errStress
			}
			return err
		})
		if err != nil && err != errStress {
			t.Error(err)
		}
	}
	replace(rand.New(rand.NewPCG(0, 0)))
	var all sync.WaitGroup
	for g := range 2 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			for range 2000 {
				replace(rng)
			}
		})
		all.Go(func() {
			for range 2000 {
				_ = x.Txn(func(tx *exec.Tx) error {
					if a != nil && (tx.State(a) != exec.Pending || tx.State(b) != exec.Pending) {
						t.Errorf("saw %v and %v", tx.State(a), tx.State(b))
					}
					return nil
				})
			}
		})
	}
	all.Wait()
	if s := x.Stats(); a != nil && s.Pending != 2 {
		t.Errorf("%d pending, want the last pair", s.Pending)
	}
	close(gate)
}

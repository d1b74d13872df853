// Package exec runs tasks that depend on one another on a bounded pool.
//
// A task is a named function that receives the results of the tasks it depends on and
// starts only once all of them are done, so a task never occupies the pool just to wait
// for its inputs. Tasks are created, queried and cancelled in transactions: all of it
// happens, at one instant, or none of it does.
//
//	x := exec.New(0) // as many workers as GOMAXPROCS
//	defer x.Close()
//
//	var total *exec.Task[int]
//	err := x.Txn(func(tx *exec.Tx) error {
//		a, err := exec.Go(tx, "a", func(context.Context) (int, error) { return 1, nil })
//		if err != nil {
//			return err // nothing was created
//		}
//		total, err = exec.Then(tx, "b", a, func(_ context.Context, a int) (int, error) { return a + 1, nil })
//		return err
//	})
//	...
//	n, err := total.Wait(ctx) // 2
//
// # Guarantees
//
//   - A task's function runs at most once, after all its dependencies are done, and never
//     after a cancel that came before its start.
//   - At most Size functions run at any instant. A function blocked in [Task.Wait] does not
//     count: it gives up its slot and takes one again before Wait returns. Hence tasks may
//     wait for tasks, to any depth, on a pool of any size.
//   - Among the tasks that could run, the oldest (lowest id) goes first. Ids only grow, so
//     none is passed over for ever.
//   - An error or a panic is the task's result. Its dependents do not run and have the same
//     result, except one made by [Catch].
//   - Cancelling a task cancels everything that depends on it. Waiting for a cancelled task
//     returns [ErrCancelled], and never blocks for ever.
//   - A task's inputs are released before its function runs, and a finished task is known
//     only to those who hold its handle or have yet to use its result. A long chain
//     therefore holds one result at a time, not all of them.
//   - Tasks that wait for one another in a circle are told so, with [ErrDeadlock], once
//     nothing else runs.
//   - An idle executor has no goroutines.
//
// # Structure
//
// All decisions are made by a plain data structure (state.go) under one lock. It touches
// neither goroutines nor channels; it appends what must happen to a log of effects, which
// is applied after the lock is released. Creating, cancelling, starting and finishing a
// task cost O(log n) for n tasks ready to run, plus O(1) for every dependency and every
// dependent concerned. When every function that was started waits, and only then, a search
// for circles costs time linear in the tasks waited for.
package exec

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
)

var (
	// ErrCancelled is the result of a task that was cancelled, or created in a transaction
	// that failed, and the reason such a task cannot be depended on.
	ErrCancelled = errors.New("task cancelled")

	// ErrClosed is returned when a task is created on an executor that was closed.
	ErrClosed = errors.New("executor closed")

	// ErrForeign is returned for a dependency that is nil or of another executor.
	ErrForeign = errors.New("not a task of this executor")

	// ErrDeadlock is returned by a wait that could never end: the task waited for cannot
	// finish before the waiting task does.
	ErrDeadlock = errors.New("deadlock")

	// ErrTxDone is returned when a transaction is used after its function returned.
	ErrTxDone = errors.New("transaction is over")

	// ErrGoexit is the result of a task whose function called runtime.Goexit, as
	// testing.T.FailNow does.
	ErrGoexit = errors.New("task called runtime.Goexit")
)

// Executor runs tasks. Its methods may be called from any goroutine, including from the
// functions of its tasks where not said otherwise. Make one with [New].
type Executor struct {
	size int

	mu sync.Mutex
	st state // guarded by mu
}

// New returns an executor that runs at most size tasks at a time; size <= 0 stands for
// runtime.GOMAXPROCS(0). It starts no goroutine until there is a task to run, so an
// executor whose tasks are finished need not be closed to be collected.
func New(size int) *Executor {
	if size <= 0 {
		size = runtime.GOMAXPROCS(0)
	}
	return &Executor{size: size, st: newState(size)}
}

// Size returns the greatest number of tasks that run at a time.
func (x *Executor) Size() int { return x.size }

// Stats counts the unfinished work of an executor at one instant.
type Stats struct {
	Pending int // tasks that have not started
	Running int // functions holding a slot; at most Size
	Waiting int // functions that gave up their slot in Wait

	_ struct{}
}

// Stats returns how much work is unfinished. A cancelled task counts as running, or
// waiting, until its function returns. O(1).
func (x *Executor) Stats() Stats {
	x.mu.Lock()
	defer x.mu.Unlock()
	running := x.size - x.st.free
	return Stats{Pending: x.st.pending, Running: running, Waiting: len(x.st.executing) - running}
}

// Txn calls fn with a transaction and commits it if fn returns nil. If fn returns an error,
// panics, or calls runtime.Goexit, nothing happens: what it cancelled goes on as before and
// what it created is cancelled without ever having been startable. Txn returns fn's error
// as it is, and lets its panic through.
//
// No other change to the executor happens between the start of fn and the commit: a task
// seen pending by fn has not started when it is cancelled by fn. For that the executor
// stands still while fn runs, so fn must be short, and must use nothing of the executor but
// tx; to wait for a task or to call a method of the executor in fn is a deadlock.
func (x *Executor) Txn(fn func(tx *Tx) error) (err error) {
	tx := &Tx{x: x}
	commit := false

	x.mu.Lock()
	defer func() {
		tx.finish(commit)
		x.unlockAndApply()
	}()
	err = fn(tx)
	commit = err == nil
	return err
}

// Drain waits until no task is pending and no function is running. It returns the context's
// error if that ends first, and an error that wraps [ErrDeadlock] if called, by its
// context, from a task of this executor. New tasks may be created meanwhile; they are
// waited for too.
func (x *Executor) Drain(ctx context.Context) error {
	if s := seatOf(ctx); s != nil && s.x == x {
		return fmt.Errorf("drain within task %d %q: %w", s.id, s.name, ErrDeadlock)
	}
	select {
	case <-x.idle():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drain: %w", ctx.Err())
	}
}

// Close cancels every unfinished task, refuses new ones with [ErrClosed], and returns once
// the last running function has returned. To let the tasks finish first, Drain before.
// It must not be called from a task's function, which it would wait for. Closing again is
// harmless; the error is always nil.
func (x *Executor) Close() error {
	x.mu.Lock()
	x.st.closed = true
	tx := Tx{x: x}
	for _, t := range x.st.roots() {
		x.st.cancel(t, &tx.undo)
	}
	tx.finish(true)
	x.unlockAndApply()
	<-x.idle()
	return nil
}

// idle returns a channel that is closed at the first instant without unfinished work.
func (x *Executor) idle() <-chan struct{} {
	x.mu.Lock()
	defer x.unlockAndApply()
	ch := make(chan struct{})
	x.st.idlers = append(x.st.idlers, ch)
	x.st.dispatch()
	return ch
}

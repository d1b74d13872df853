package exec

import "context"

// Task is a handle on a task whose result is a T. Whoever holds the handle of a finished
// task keeps its result alive. Its methods may be called from any goroutine.
type Task[T any] struct{ task task }

// Handle is a [*Task] of any type.
type Handle interface {
	ID() uint64
	Name() string
	core() *task
}

func (t *Task[T]) core() *task {
	if t == nil {
		return nil
	}
	return &t.task
}

// ID returns the task's number: unique in its executor, and greater than that of every task
// created before it.
func (t *Task[T]) ID() uint64 { return t.task.id }

// Name returns the name the task was created with.
func (t *Task[T]) Name() string { return t.task.name }

// Done returns a channel that is closed when the task is done or cancelled. To receive from
// it within a task's function keeps that function's slot; Wait does not.
func (t *Task[T]) Done() <-chan struct{} { return t.task.done }

// State returns where the task stands. To decide on it, use [Tx.State] in a transaction, in
// which it cannot change. O(1).
func (t *Task[T]) State() State {
	x := t.task.x
	x.mu.Lock()
	defer x.mu.Unlock()
	return t.task.state
}

// Cancel cancels the task and everything that depends on it, as [Tx.Cancel] does in a
// transaction, and returns how many tasks that were.
func (t *Task[T]) Cancel() (cancelled int) {
	_ = t.task.x.Txn(func(tx *Tx) error { // fails only if its function does
		cancelled = tx.Cancel(t)
		return nil
	})
	return cancelled
}

// Wait blocks until the task is done and returns its result: the value, or the error its
// function returned, as it is; a [*PanicError] if it panicked; the error of the dependency
// it inherited. If the task is or gets cancelled, Wait returns an error that wraps
// [ErrCancelled], at once, even if its function is still running. If ctx ends first, the
// error wraps ctx.Err().
//
// Within a task's function, Wait must be given the context of that function or one derived
// from it, and be called on the function's own goroutine. It gives the function's slot to
// other tasks while it blocks, and has one again when it returns; it may have to wait for
// that, whether or not ctx has ended. Once nothing else runs, a wait that can never end,
// because the task waited for cannot finish before the waiting one, returns an error that
// wraps [ErrDeadlock]. A circle through another executor is not noticed.
func (t *Task[T]) Wait(ctx context.Context) (T, error) {
	if err := t.task.wait(ctx); err != nil {
		var zero T
		return zero, err
	}
	return as[T](t.task.value), nil
}

// as restores the type of a result. A nil interface has none, and is the zero of its type.
func as[T any](v any) T {
	t, _ := v.(T)
	return t
}

// take restores the type of an input and clears its place, so that the task's function has
// the only reference.
func take[T any](in []any, i int) T {
	v := in[i]
	in[i] = nil
	return as[T](v)
}

// Submitter is where tasks are created: an [*Executor], which starts a task as soon as it
// can, or a [*Tx], whose tasks come into being when it commits.
type Submitter interface {
	submit(t *task, deps []*task) error
}

func submit[T any](s Submitter, name string, catch bool, body body, deps ...*task) (*Task[T], error) {
	t := &Task[T]{task{name: name, catch: catch, body: body, done: make(chan struct{})}}
	if err := s.submit(&t.task, deps); err != nil {
		return nil, err
	}
	return t, nil
}

// Go creates a task without dependencies. The context given to fn ends when the task is
// cancelled or has returned; it makes Wait within fn safe.
//
// The errors of Go and of the functions below wrap [ErrClosed] if the executor is closed,
// [ErrCancelled] if a dependency was cancelled, [ErrForeign] if one is nil or of another
// executor, [ErrTxDone] if the transaction is over. Then there is no task. To depend on a
// task that is done is no error: its result is captured. A dependency may be named twice.
func Go[T any](s Submitter, name string, fn func(ctx context.Context) (T, error)) (*Task[T], error) {
	return submit[T](s, name, false, func(ctx context.Context, _ []any) (any, error) {
		return fn(ctx)
	})
}

// Then creates a task that receives the result of another. If that fails, fn does not run
// and the new task fails with the same error.
func Then[D, T any](s Submitter, name string, dep *Task[D], fn func(ctx context.Context, d D) (T, error)) (*Task[T], error) {
	return submit[T](s, name, false, func(ctx context.Context, in []any) (any, error) {
		return fn(ctx, take[D](in, 0))
	}, dep.core())
}

// Join2 creates a task that receives the results of two others. If both fail, the error is
// that of a, whichever failed first in time.
func Join2[A, B, T any](s Submitter, name string, a *Task[A], b *Task[B], fn func(ctx context.Context, a A, b B) (T, error)) (*Task[T], error) {
	return submit[T](s, name, false, func(ctx context.Context, in []any) (any, error) {
		return fn(ctx, take[A](in, 0), take[B](in, 1))
	}, a.core(), b.core())
}

// Join3 is [Join2] for three.
func Join3[A, B, C, T any](s Submitter, name string, a *Task[A], b *Task[B], c *Task[C], fn func(ctx context.Context, a A, b B, c C) (T, error)) (*Task[T], error) {
	return submit[T](s, name, false, func(ctx context.Context, in []any) (any, error) {
		return fn(ctx, take[A](in, 0), take[B](in, 1), take[C](in, 2))
	}, a.core(), b.core(), c.core())
}

// All creates a task that receives the results of any number of others, in the order given;
// fn owns the slice. If some fail, the error is that of the first in that order.
func All[D, T any](s Submitter, name string, deps []*Task[D], fn func(ctx context.Context, ds []D) (T, error)) (*Task[T], error) {
	cores := make([]*task, len(deps))
	for i, d := range deps {
		cores[i] = d.core()
	}
	return submit[T](s, name, false, func(ctx context.Context, in []any) (any, error) {
		return fn(ctx, takeAll[D](in))
	}, cores...)
}

func takeAll[D any](in []any) []D {
	ds := make([]D, len(in))
	for i := range in {
		ds[i] = take[D](in, i)
	}
	return ds
}

// Catch creates a task with the value of dep, or, if dep failed, what fn makes of its error.
// If dep succeeds fn does not run. A cancelled dependency is not a failed one: it cancels
// the catch too.
func Catch[T any](s Submitter, name string, dep *Task[T], fn func(ctx context.Context, err error) (T, error)) (*Task[T], error) {
	return submit[T](s, name, true, func(ctx context.Context, in []any) (any, error) {
		return fn(ctx, take[error](in, 0))
	}, dep.core())
}

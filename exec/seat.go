package exec

import (
	"context"
	"fmt"
)

// seat is a task's claim to one of the pool's slots, from the moment it could run until its
// function returns.
//
// The pool's invariant: the number of seats with holds set plus the number of free slots is
// the pool's size, and a function runs only while its seat holds a slot. A function in Wait
// is not running; park and unpark keep the invariant around it. The pool stays live because
// a slot is only ever held by a function that makes progress on its own: whoever waits for
// a task has let go.
type seat struct {
	id   uint64
	name string
	x    *Executor
	task *task // nil once the function returned
	pos  int   // in the queue, -1 outside

	body       body // taken by the worker
	in         []any
	ctx        context.Context
	endContext context.CancelCauseFunc

	holds   bool
	granted chan struct{} // not nil while queued to resume; closed when it holds a slot

	awaits *task         // what its function waits for, nil if it does not
	doomed chan struct{} // not nil while it awaits; closed if that can never end
}

type seatKey struct{}

func newContext(s *seat) (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(context.WithValue(context.Background(), seatKey{}, s))
}

// seatOf returns the seat of the task whose context this is, or nil.
func seatOf(ctx context.Context) *seat {
	s, _ := ctx.Value(seatKey{}).(*seat)
	return s
}

// wait blocks until t is done or cancelled, or ctx ends.
func (t *task) wait(ctx context.Context) error {
	select {
	case <-t.done: // the common case costs no lock
		return t.outcome()
	default:
	}
	reason := ctx.Err
	var doomed <-chan struct{} // never, outside a task
	if s := seatOf(ctx); s != nil {
		doomed = s.x.park(s, t)
		defer s.x.unpark(s)
	}
	select {
	case <-t.done:
		return t.outcome()
	case <-doomed:
		reason = func() error { return ErrDeadlock }
	case <-ctx.Done():
	}
	select {
	case <-t.done: // a result that is there is worth more than the reason to give up
		return t.outcome()
	default:
		return fmt.Errorf("wait for task %d %q: %w", t.id, t.name, reason())
	}
}

// outcome is the error of a task whose done is closed.
func (t *task) outcome() error {
	if t.state == Cancelled {
		return fmt.Errorf("task %d %q: %w", t.id, t.name, ErrCancelled)
	}
	return t.err
}

// park gives up a seat's slot while its function waits for t. The channel it returns is
// closed if t can never be done.
func (x *Executor) park(s *seat, t *task) <-chan struct{} {
	x.mu.Lock()
	defer x.unlockAndApply()
	return x.st.park(s, t)
}

func (st *state) park(s *seat, t *task) <-chan struct{} {
	if s.task == nil { // a context that outlived its function
		return nil
	}
	doomed := make(chan struct{})
	if s.task == t { // a circle of one needs no search
		st.emit(effect{kind: announce, done: doomed})
		return doomed
	}
	s.awaits, s.doomed = t, doomed
	st.vacate(s)
	st.dispatch()
	return doomed
}

// unpark returns once a parked seat holds a slot again. It queues by the task's age, ahead
// of everything created later, in particular of what the task itself created. It is not cut
// short by a context: to return without a slot would run more functions than the pool has.
func (x *Executor) unpark(s *seat) {
	if granted := x.requeue(s); granted != nil {
		<-granted
	}
}

func (x *Executor) requeue(s *seat) <-chan struct{} {
	x.mu.Lock()
	defer x.unlockAndApply()
	return x.st.requeue(s)
}

// requeue queues a parked seat. It returns nil if there is nothing to wait for, as when the
// context was used by two goroutines and the other one has the slot, or the function has
// returned.
func (st *state) requeue(s *seat) <-chan struct{} {
	s.awaits, s.doomed = nil, nil
	if s.task == nil || s.holds {
		return nil
	}
	if s.granted == nil {
		s.granted = make(chan struct{})
		st.push(s)
	}
	granted := s.granted
	st.dispatch()
	return granted
}

// vacate frees the slot a seat holds, or ends its claim to one.
func (st *state) vacate(s *seat) {
	if s.holds {
		s.holds = false
		st.free++
	}
	if s.granted != nil {
		st.remove(s)
		st.emit(effect{kind: announce, done: s.granted})
		s.granted = nil
	}
}

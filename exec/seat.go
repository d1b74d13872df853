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
// is not running. The pool stays live because a slot is only ever held by a function that
// makes progress on its own: whoever waits for a task has let go.
//
// A seat is in one of five situations: queued to start (in the queue, granted nil), holding,
// parked (awaits and granted set), queued to resume (in the queue, granted set), or over
// (task nil). What ends a wait is decided under the lock, by the change that ends it; that
// change also queues the seat, so it competes for the slots that change frees, at its age.
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
	awaits  *task         // what its function waits for, while parked
	granted chan struct{} // made by park; closed when it holds a slot again
	why     reason        // why the wait ended; set before granted is closed
}

// reason is why the wait of a task's function ended.
type reason uint8

const (
	finished  reason = iota // what it waited for is done or cancelled
	gaveUp                  // its context ended
	cancelled               // so did that of the task: it was cancelled, or it returned
	doomed                  // what it waits for can never be done
)

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
	if ctx.Err() != nil { // not worth giving up a slot for
		return t.unfinished(ctx.Err())
	}
	s := seatOf(ctx)
	if s == nil {
		return t.waitWithoutSeat(ctx)
	}
	granted := s.x.park(s, t)
	if granted == nil {
		return t.waitWithoutSeat(ctx)
	}
	var foreign <-chan struct{} // another executor does not know of this one's seats
	if t.x != s.x {
		foreign = t.done
	}
	select {
	case <-granted:
	case <-foreign:
		s.x.wake(s, finished)
	case <-ctx.Done():
		s.x.wake(s, gaveUp)
	}
	// Not cut short by ctx: to return without a slot would run more functions than the pool
	// has slots.
	<-granted
	switch s.why {
	case finished:
		return t.outcome()
	case doomed:
		return t.unfinished(ErrDeadlock)
	case cancelled:
		return t.unfinished(context.Canceled)
	default:
		return t.unfinished(ctx.Err())
	}
}

// waitWithoutSeat is wait outside of tasks.
func (t *task) waitWithoutSeat(ctx context.Context) error {
	select {
	case <-t.done:
		return t.outcome()
	case <-ctx.Done():
	}
	select {
	case <-t.done: // a result that is there is worth more than the reason to give up
		return t.outcome()
	default:
		return t.unfinished(ctx.Err())
	}
}

// outcome is the error of a task that is known to be finished.
func (t *task) outcome() error {
	if t.state == Cancelled {
		return fmt.Errorf("task %d %q: %w", t.id, t.name, ErrCancelled)
	}
	return t.err
}

func (t *task) unfinished(why error) error {
	return fmt.Errorf("wait for task %d %q: %w", t.id, t.name, why)
}

func (x *Executor) park(s *seat, t *task) <-chan struct{} {
	x.mu.Lock()
	defer x.unlockAndApply()
	return x.st.park(s, t)
}

func (x *Executor) wake(s *seat, why reason) {
	x.mu.Lock()
	defer x.unlockAndApply()
	x.st.wake(s, why)
	x.st.dispatch()
}

// park gives up a seat's slot while its function waits for t. The channel it returns is
// closed once the wait is over and the seat holds a slot again. It is nil if the seat has no
// slot to give up: because its function returned and only the context is left, or because a
// second goroutine uses the context.
func (st *state) park(s *seat, t *task) <-chan struct{} {
	if !s.holds {
		return nil
	}
	granted := make(chan struct{})
	switch {
	case t.x == s.x && (t.state == Done || t.state == Cancelled):
		s.why = finished // since wait looked, or about to be announced
	case t == s.task:
		s.why = doomed // a circle of one needs no search
	default:
		s.awaits, s.granted = t, granted
		if t.x == s.x {
			if t.waiters == nil {
				t.waiters = make(map[*seat]struct{})
			}
			t.waiters[s] = struct{}{}
		}
		s.holds = false
		st.free++
		st.dispatch()
		return granted
	}
	st.emit(effect{kind: announce, done: granted})
	return granted
}

// wake ends the wait of a parked seat: it is queued for a slot, ahead of everything created
// later than its task, in particular of what the task itself created. It does nothing for a
// seat that is not parked, whose wait has ended before.
func (st *state) wake(s *seat, why reason) {
	if s.awaits == nil {
		return
	}
	st.unregister(s)
	s.why = why
	st.push(s)
}

// wakeAll ends the waits for a task that is finished.
func (st *state) wakeAll(t *task) {
	for s := range t.waiters {
		st.wake(s, finished)
	}
	t.waiters = nil
}

func (st *state) unregister(s *seat) {
	if s.awaits.x == s.x {
		delete(s.awaits.waiters, s)
	}
	s.awaits = nil
}

// leave ends a seat whose function has returned. It may be parked or queued by a goroutine
// that uses the context behind the function's back, which must not be left hanging.
func (st *state) leave(s *seat) {
	s.task = nil // a context that outlives the task does not keep its result
	delete(st.executing, s)
	switch {
	case s.holds:
		s.holds = false
		st.free++
		return
	case s.awaits != nil:
		st.unregister(s)
		s.why = cancelled
	default:
		st.remove(s)
	}
	st.emit(effect{kind: announce, done: s.granted})
	s.granted = nil
}

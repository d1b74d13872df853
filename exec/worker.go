package exec

import (
	"fmt"
	"runtime/debug"
)

// effect is something the state decided that the world must see. Effects are applied after
// the lock is released, and in any order with those of other changes: each is about one
// task, happens once, and reveals only what the state made final before.
type effect struct {
	kind effectKind
	seat *seat         // of start and endContext
	done chan struct{} // of announce
}

type effectKind uint8

const (
	announce   effectKind = iota // close done: a result, a granted slot, an idle executor
	start                        // run the seat's function on a goroutine
	endContext                   // end the context of a cancelled task that is running
)

// unlockAndApply releases the lock and applies the effects of what was done under it.
func (x *Executor) unlockAndApply() {
	if s := x.unlockAndTake(); s != nil {
		go x.work(s)
	}
}

// unlockAndTake is unlockAndApply for a worker: the first seat to start, if there is one, is
// left to the caller, who has a goroutine to spare.
func (x *Executor) unlockAndTake() (first *seat) {
	log := x.st.log
	x.st.log = nil
	x.mu.Unlock()
	for _, e := range log {
		switch {
		case e.kind == announce:
			close(e.done)
		case e.kind == endContext:
			e.seat.endContext(ErrCancelled)
		case first == nil:
			first = e.seat
		default:
			go x.work(e.seat)
		}
	}
	return first
}

// work runs a seat's function, then whatever the slot it frees goes to, until there is
// nothing to run.
func (x *Executor) work(s *seat) {
	for s != nil {
		s = x.run(s)
	}
}

// run runs a seat's function to its end, whichever way that comes, and returns the next seat
// to run. The deferred call is the only place where a function's end is recorded, so a slot
// cannot be lost.
func (x *Executor) run(s *seat) (next *seat) {
	var (
		value    any
		err      error
		returned bool
	)
	defer func() {
		gone := false
		if !returned {
			if v := recover(); v != nil {
				err = &PanicError{Value: v, Stack: debug.Stack()}
			} else {
				err, gone = ErrGoexit, true
			}
		}
		x.mu.Lock()
		x.st.end(s, value, err)
		next = x.unlockAndTake()
		s.endContext(nil)
		if gone && next != nil { // this goroutine is about to end
			go x.work(next)
		}
	}()
	body, in := s.body, s.in
	s.body, s.in = nil, nil
	value, err = body(s.ctx, in)
	returned = true
	return nil
}

// PanicError is the result of a task whose function panicked.
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // the stack of the panic, as of debug.Stack
}

// Error returns the value and the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("task panicked: %v\n\n%s", e.Value, e.Stack)
}

// Unwrap returns the value if it is an error, else nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

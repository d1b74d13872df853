package folds

import (
	"fmt"
	"runtime/debug"
)

// PanicError is the error of a fold one of whose functions panicked, or of a
// fold over a view or a source that did.
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // where
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Unwrap returns the value of the panic if it is an error, and nil if not.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// guard is deferred around a call of somebody else's function, and turns a
// panic into an error. returned is set by the caller when the call returned:
// it tells a panic(nil) or Goexit from a return. Goexit goes on after guard; the
// goroutine's own deferred functions deal with it.
func guard(returned *bool, err *error) {
	if *returned {
		return
	}
	if v := recover(); v != nil {
		*err = &PanicError{Value: v, Stack: debug.Stack()}
	}
}

// failure says which fold failed, and where.
func (j *job) failure(chunk int, doing string, err error) error {
	return fmt.Errorf("fold %q: %s chunk %d: %w", j.name, doing, chunk, err)
}

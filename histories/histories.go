// Package histories holds what a test recorded: the operations that clients
// and the nemesis invoked, and how each of them ended.
//
// A [History] is a sequence of [Op]s in the order in which they happened. Each
// operation appears as an invocation and, unless the test ended before it did,
// a completion. A completion says what is known about the effect:
//
//   - [OK]: the effect took place, at some moment between invocation and completion;
//   - [Fail]: the effect did not take place and never will;
//   - [Info]: nobody knows. The effect may take place at any later time, or never.
//
// A process is a single logical thread of one client: it has at most one
// operation in flight. After an [Info] it never acts again; the thread that
// ran it goes on under a new process number. The operations of the nemesis are
// recorded as pairs of [Info] entries, marked [Begin] and [End].
//
// Operations are stored by column in chunks (see [Chunk]), in memory or on
// disk (package store), so that an analysis pays only for the fields it reads.
// A history is read one operation at a time:
//
//	h, err := histories.New(
//		histories.Op{Process: 0, Type: histories.Invoke, F: "read"},
//		histories.Op{Process: 0, Type: histories.OK, F: "read", Value: histories.Int(3)},
//	)
//	for op, err := range h.All() {
//		if err != nil { … } // reading from disk can fail
//		fmt.Println(op)
//	}
//
// or, at full speed, by folds (package folds), which work on whole chunks.
//
// Views ([Filter], [Map], [Slice]) are made in constant time and share the
// data of the history below them. Everything here may be used by several
// goroutines at once, as long as nobody changes a value that has been handed in.
package histories

import (
	"errors"
	"fmt"
)

// Errors that describe a malformed history. They are wrapped in an [*OpError],
// which names the operation.
var (
	// ErrDoubleInvoke: a process invoked an operation while another of its
	// operations was still open.
	ErrDoubleInvoke = errors.New("process already has an operation open")
	// ErrNotInvoked: an operation completed that had not been invoked.
	ErrNotInvoked = errors.New("completion without an invocation")
	// ErrIndex: indices are not unique and strictly increasing, or some
	// operations have one and others do not.
	ErrIndex = errors.New("bad index")
	// ErrTime: some operations have a time and others do not.
	ErrTime = errors.New("bad time")
	// ErrOutOfRange: a position at or beyond the end of a history was asked for.
	ErrOutOfRange = errors.New("position out of range")
)

// OpError says which operation of a history is wrong, and how.
type OpError struct {
	Pos int64 // position in the history, from 0
	Op  Op    // the operation, as far as it is known
	Err error // one of the errors above, possibly with details
}

func (e *OpError) Error() string {
	return fmt.Sprintf("operation at position %d (%v): %v", e.Pos, e.Op, e.Err)
}

func (e *OpError) Unwrap() error { return e.Err }

// Package folds analyses histories: a [Fold] reduces every chunk of a history on
// its own and combines the results in order, and [Run] carries it out.
//
//	reads := folds.Fold[int64, int64]{
//		Name:    "count reads",
//		Columns: histories.ColF,
//		New:     func() int64 { return 0 },
//		Chunk: func(n int64, c *histories.Chunk) (int64, error) {
//			code, _ := c.FCode("read")
//			for _, f := range c.F {
//				if f == code { n++ }
//			}
//			return n, nil
//		},
//		Merge:  func(a, b int64) (int64, error) { return a + b, nil },
//		Result: func(n int64) (int64, error) { return n, nil },
//	}
//	n, err := folds.Run(ctx, history, reads)
//
// Common folds need not be written out: an [Agg] says what to compute of the
// elements of a stream, a [Field] says what the elements are, and [Over] makes a
// fold of the two:
//
//	counts, err := folds.Run(ctx, history, folds.Over(folds.F(), folds.Frequencies[string]()))
//
// Folds that run at the same time over the same history, or over views of it,
// share one pass: each chunk is read and decoded once for all of them. A fold
// that comes later takes part from the next chunk on, and only what it missed
// is read again. See [Folder] for how.
//
// What a fold may rely on:
//
//   - Every operation of the history is seen exactly once, in order within its
//     chunk, unless the fold stops early.
//   - An accumulator is used by one goroutine at a time and by no other fold;
//     it may be mutable, and needs no locks.
//   - Chunk results are merged from left to right.
//   - The result, or the error, is the one that a fold of one goroutine over
//     the same history would have.
//   - An error, a panic, an early stop or the end of the context of one fold
//     never affects another.
//   - A fold may run another fold, over this history or another one, in any of
//     its functions, and wait for anything that other folds do.
//   - Memory is bounded: a fold holds a few decoded chunks, and a few chunk
//     results that wait for their turn to be merged, whatever the history's length.
package folds

import (
	"context"
	"errors"
	"fmt"

	"github.com/jepsentest/go/histories"
)

// ErrStop is returned by the functions of a fold, together with an
// accumulator, to say that nothing that follows is needed. Returned by Step or
// Chunk it ends the reduction of that chunk, and of a linear fold altogether.
// Returned by Merge it ends the fold at the last operation that was merged;
// what lies before is still merged into the result. It is never returned by [Run].
var ErrStop = errors.New("fold has seen enough")

// ErrGoexit is the error of a fold one of whose functions called
// runtime.Goexit, as testing.T.FailNow does.
var ErrGoexit = errors.New("a function of the fold called runtime.Goexit")

// A Fold computes an R from a history by way of accumulators of type A.
//
// If Merge is nil the fold is linear: one accumulator goes from the first
// operation to the last. Otherwise chunks are reduced in parallel, each to an
// accumulator of its own, and these are merged into the first in order. Chunks
// of which the history (a view, say) has no operation are left out.
type Fold[A, R any] struct {
	// Name says what is computed; it appears in errors and traces.
	Name string
	// Columns are the fields that the fold reads. A pass decodes the union of
	// what its folds need. 0 means all.
	Columns histories.Columns
	// New makes an accumulator. It is called once for every chunk, or once
	// altogether if the fold is linear or there is nothing to reduce.
	New func() A
	// Step takes one operation. Give either Step or Chunk.
	Step func(acc A, op histories.Op) (A, error)
	// Chunk takes a whole chunk, whose columns at least the Columns are
	// there. It is the faster way, and must not change the chunk.
	Chunk func(acc A, c *histories.Chunk) (A, error)
	// Finish, if not nil, is called with each chunk's accumulator when the
	// chunk has been reduced, in parallel, before it is merged. In a linear
	// fold it is called once, at the end.
	Finish func(acc A) (A, error)
	// Merge combines the accumulator of the chunks so far with that of the next.
	Merge func(total, next A) (A, error)
	// Associative says that Merge may be applied in any grouping (though in
	// order). The results of a long history are then merged as a tree, and a
	// fold that joins a pass half-way need not go back before it can go on.
	Associative bool
	// Result makes the final value.
	Result func(acc A) (R, error)
}

func (f *Fold[A, R]) validate() error {
	switch {
	case f.New == nil:
		return fmt.Errorf("fold %q: New is missing", f.Name)
	case (f.Step == nil) == (f.Chunk == nil):
		return fmt.Errorf("fold %q: give exactly one of Step and Chunk", f.Name)
	case f.Result == nil:
		return fmt.Errorf("fold %q: Result is missing", f.Name)
	}
	return nil
}

// Run computes f over what h holds now. It may be called from any goroutine,
// also from inside another fold. If ctx ends first, the error wraps ctx's; it is
// returned as soon as the functions of the fold that are running have returned,
// and a Step counts as one call. The error of a function is wrapped, its panic
// is a [*PanicError]; if several chunks fail, it is that of the first.
func Run[A, R any](ctx context.Context, h histories.History, f Fold[A, R]) (R, error) {
	var zero R
	r, err := newRun(h, &f)
	if err != nil {
		return zero, err
	}
	if err := r.drive(ctx, 0, h.Source().NumChunks()); err != nil {
		return zero, err
	}
	return r.result()
}

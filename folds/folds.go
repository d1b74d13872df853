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
// Folds that run at the same time over the same history share one pass: each
// chunk is read and decoded once for all of them.
//
// What a fold may rely on:
//
//   - Every operation of the history is seen exactly once, in order within its
//     chunk, unless the fold stops early.
//   - An accumulator is used by one goroutine at a time and by no other fold;
//     it may be mutable, and needs no locks.
//   - Chunk results are merged from left to right.
//   - An error, a panic or an early stop of one fold never affects another.
package folds

import (
	"context"
	"errors"
	"fmt"

	"github.com/jepsentest/go/histories"
)

// ErrStop is returned by the functions of a fold, together with an
// accumulator, to say that no more operations are needed. Returned by Step or
// Chunk it ends the reduction of that chunk, and of a linear fold altogether;
// returned by Merge it ends the fold. It is never returned by [Run].
var ErrStop = errors.New("fold has seen enough")

// A Fold computes an R from a history by way of accumulators of type A.
//
// If Merge is nil the fold is linear: one accumulator goes from the first
// operation to the last. Otherwise chunks are reduced in parallel, each to an
// accumulator of its own, and these are merged into the first in order.
type Fold[A, R any] struct {
	// Name says what is computed; it appears in errors and traces.
	Name string
	// Columns are the fields that the fold reads. A pass decodes the union of
	// what its folds need. 0 means all.
	Columns histories.Columns
	// New makes an accumulator.
	New func() A
	// Step takes one operation. Give either Step or Chunk.
	Step func(acc A, op histories.Op) (A, error)
	// Chunk takes a whole chunk, whose columns at least the Columns are
	// there. It is the faster way, and must not change the chunk.
	Chunk func(acc A, c *histories.Chunk) (A, error)
	// Finish, if not nil, is called with each chunk's accumulator when the
	// chunk has been reduced, in parallel, before it is merged.
	Finish func(acc A) (A, error)
	// Merge combines the accumulator of the chunks so far with that of the next.
	Merge func(total, next A) (A, error)
	// Associative says that Merge may be applied in any grouping (though in
	// order), which lets the results of a long history be merged as a tree.
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

// Run computes f over h. It may be called from any goroutine, also from inside
// another fold. If ctx ends, it returns ctx's error.
func Run[A, R any](ctx context.Context, h histories.History, f Fold[A, R]) (R, error) {
	var zero R
	if err := f.validate(); err != nil {
		return zero, err
	}
	if f.Columns == 0 {
		f.Columns = histories.AllColumns
	}
	total := f.New()
	first := true
	for c, err := range histories.Chunks(h, f.Columns) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return zero, fmt.Errorf("fold %q: %w", f.Name, err)
		}
		acc := total
		if f.Merge != nil {
			acc = f.New()
		}
		acc, err = f.reduce(acc, c)
		stop := errors.Is(err, ErrStop) && f.Merge == nil
		if err != nil && !errors.Is(err, ErrStop) {
			return zero, fmt.Errorf("fold %q: %w", f.Name, err)
		}
		if f.Merge == nil {
			total = acc
		} else if first {
			total = acc
		} else {
			total, err = f.Merge(total, acc)
			stop = errors.Is(err, ErrStop)
			if err != nil && !stop {
				return zero, fmt.Errorf("fold %q: %w", f.Name, err)
			}
		}
		first = false
		if stop {
			break
		}
	}
	return f.Result(total)
}

func (f *Fold[A, R]) reduce(acc A, c *histories.Chunk) (A, error) {
	var err error
	if f.Chunk != nil {
		acc, err = f.Chunk(acc, c)
	} else {
		for i := 0; i < c.Len() && err == nil; i++ {
			acc, err = f.Step(acc, c.Op(i))
		}
	}
	if f.Finish != nil && (err == nil || errors.Is(err, ErrStop)) {
		stop := err
		if acc, err = f.Finish(acc); err == nil {
			err = stop
		}
	}
	return acc, err
}

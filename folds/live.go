package folds

import (
	"context"
	"fmt"
	"time"

	"github.com/jepsentest/go/histories"
)

// Growing is a [histories.Source] of a history that is still being written.
type Growing interface {
	histories.Source
	// WaitChunks waits until the source has more than n chunks, and returns
	// true; or until it is certain that it will never have, and returns false.
	// It returns an error if ctx ends or the source cannot be read any more.
	WaitChunks(ctx context.Context, n int) (more bool, err error)
}

// LiveOptions say how a live fold goes on. The zero LiveOptions are those of a
// fold over a history that knows by itself when it grows.
type LiveOptions[A any] struct {
	_ struct{}

	// After, if not nil, is called with the accumulator of everything so far
	// each time another chunk is part of it. It runs between the functions of
	// the fold and may read the accumulator, but not keep it. If it returns
	// [ErrStop], the fold ends, with the result of what it has seen; any other
	// error fails the fold.
	After func(total A) error
	// Wait says when there is more, as [Growing] does. If it is nil, the
	// source is asked if it is a Growing, and taken to be complete if it is not.
	Wait func(ctx context.Context, n int) (more bool, err error)
}

// Live computes a fold over a history that is still being written: it takes in
// what is there, then each chunk when it has been sealed, and returns when the
// history is complete, when ctx ends, or when o.After says so. This is how a test
// is stopped at the first violation:
//
//	_, err := folds.Live(ctx, h, check, folds.LiveOptions[*state]{
//		After: func(s *state) error {
//			if s.violation != nil {
//				stopTest()
//				return folds.ErrStop
//			}
//			return nil
//		},
//	})
//
// It shares passes with other folds. Chunks are merged from left to right, also
// if the fold is associative, because After shall see every prefix.
func Live[A, R any](ctx context.Context, h histories.History, f Fold[A, R], o LiveOptions[A]) (R, error) {
	var zero R
	f.Associative = false
	r, err := newRun(h, &f)
	if err != nil {
		return zero, err
	}
	r.after = o.After
	wait := o.Wait
	if g, ok := h.Source().(Growing); ok && wait == nil {
		wait = g.WaitChunks
	}
	for done := 0; ; {
		n := h.Source().NumChunks()
		if err := r.drive(ctx, done, n); err != nil {
			return zero, err
		}
		if done = n; r.stopped || wait == nil {
			return r.result()
		}
		more, err := wait(ctx, done)
		if err != nil {
			return zero, fmt.Errorf("fold %q: wait for chunk %d: %w", f.Name, done, err)
		}
		if !more {
			return r.result()
		}
	}
}

// Poll makes a function for [LiveOptions].Wait of one that looks whether the
// source has grown: refresh is called at every interval and says whether the
// history is complete now. For a block log that another process or goroutine
// is writing:
//
//	folds.Poll(file.History().Source(), 100*time.Millisecond, func() (bool, error) {
//		err := file.Refresh()
//		return file.Complete(), err
//	})
func Poll(src histories.Source, interval time.Duration, refresh func() (complete bool, err error)) func(context.Context, int) (bool, error) {
	return func(ctx context.Context, n int) (bool, error) {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			complete, err := refresh()
			if err != nil {
				return false, err
			}
			// Complete was read first: what is there after it is all there is.
			if more := src.NumChunks() > n; more || complete {
				return more, nil
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return false, ctx.Err()
			}
		}
	}
}

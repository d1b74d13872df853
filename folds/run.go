package folds

import (
	"errors"
	"fmt"
	"time"

	"github.com/jepsentest/go/histories"
)

// run is a fold in progress, with its types.
type run[A, R any] struct {
	job
	fold  *Fold[A, R]
	after func(A) error // of a live fold: called when a chunk is part of total

	total A    // of the chunks before pos
	begun bool // total is there
}

func newRun[A, R any](h histories.History, fold *Fold[A, R]) (*run[A, R], error) {
	if err := fold.validate(); err != nil {
		return nil, err
	}
	r := &run[A, R]{fold: fold}
	columns := fold.Columns
	if columns == 0 {
		columns = histories.AllColumns
	}
	r.job = job{
		folder:  For(h),
		name:    fold.Name,
		view:    h,
		plain:   !histories.IsView(h),
		need:    h.Needs(columns),
		linear:  fold.Merge == nil,
		inOrder: fold.Merge == nil || !fold.Associative,
	}
	switch {
	case r.linear:
		r.strategy = (*linear[A, R])(r)
	case r.inOrder:
		r.strategy = &ordered[A, R]{run: r}
	default:
		r.strategy = &tree[A, R]{run: r}
	}
	return r, nil
}

// result makes the result of a fold that is settled without an error.
func (r *run[A, R]) result() (out R, err error) {
	returned := false
	func() {
		defer guard(&returned, &err)
		out, err = r.conclude()
		returned = true
	}()
	if err != nil {
		err = fmt.Errorf("fold %q: result: %w", r.name, err)
	}
	return out, err
}

func (r *run[A, R]) conclude() (out R, err error) {
	if !r.begun {
		r.total = r.fold.New()
	}
	if r.linear && r.fold.Finish != nil {
		if r.total, err = r.fold.Finish(r.total); err != nil && !errors.Is(err, ErrStop) {
			return out, err
		}
	}
	return r.fold.Result(r.total)
}

// reduce takes what the view has of a part into an accumulator: into acc if the
// fold is linear and has one already, else into a new one. have is false if there
// is nothing of the chunk. ErrStop is returned only to a linear fold: to others
// it means no more than that the chunk is done.
func (r *run[A, R]) reduce(acc A, begun bool, p *part, lane int, start time.Duration) (out A, have bool, end time.Duration, err error) {
	c, err := p.of(&r.job)
	switch {
	case err != nil:
		out, have, err = acc, true, r.failure(p.number, "read", err)
	case c == nil:
		out = acc
	default:
		have = true
		if out, err = r.call(acc, begun, c); err != nil && err != ErrStop {
			err = r.failure(p.number, "reduce", err)
		}
	}
	end = r.folder.clock()
	r.folder.traced(lane, "reduce", r.name, p.number, start, end)
	return out, have, end, err
}

// call is the guarded part of reduce.
func (r *run[A, R]) call(acc A, begun bool, c *histories.Chunk) (out A, err error) {
	returned := false
	defer guard(&returned, &err)
	if !begun {
		acc = r.fold.New()
	}
	if r.fold.Chunk != nil {
		acc, err = r.fold.Chunk(acc, c)
	} else {
		acc, err = r.steps(acc, c)
	}
	stopped := err != nil && errors.Is(err, ErrStop)
	if stopped {
		err = nil
	}
	switch {
	case r.linear && stopped:
		err = ErrStop
	case !r.linear && err == nil && r.fold.Finish != nil:
		if acc, err = r.fold.Finish(acc); errors.Is(err, ErrStop) {
			err = nil
		}
	}
	returned = true
	return acc, err
}

// stride is how many operations are stepped through before a look is taken at
// whether the fold has been cancelled.
const stride = 512

func (r *run[A, R]) steps(acc A, c *histories.Chunk) (A, error) {
	var err error
	step := r.fold.Step
	for i, n := 0, c.Len(); i < n; {
		if err := r.ctx.Err(); err != nil {
			return acc, err
		}
		if r.over.Load() {
			return acc, nil // whatever is returned now is not used
		}
		for end := min(n, i+stride); i < end; i++ {
			if acc, err = step(acc, c.Op(i)); err != nil {
				return acc, err
			}
		}
	}
	return acc, nil
}

// merge is a guarded Merge. ErrStop comes as stop.
func (r *run[A, R]) merge(total, next A, chunk, lane int, start time.Duration) (out A, stop bool, end time.Duration, err error) {
	returned := false
	func() {
		defer guard(&returned, &err)
		out, err = r.fold.Merge(total, next)
		returned = true
	}()
	end = r.folder.clock()
	r.folder.traced(lane, "merge", r.name, chunk, start, end)
	if errors.Is(err, ErrStop) {
		return out, true, end, nil
	}
	if err != nil {
		err = r.failure(chunk, "merge", err)
	}
	return out, false, end, err
}

// report calls the function of a live fold that looks at what there is so far.
func (r *run[A, R]) report(chunk int) (stop bool, err error) {
	if r.after == nil {
		return false, nil
	}
	returned := false
	func() {
		defer guard(&returned, &err)
		err = r.after(r.total)
		returned = true
	}()
	if errors.Is(err, ErrStop) {
		return true, nil
	}
	if err != nil {
		err = r.failure(chunk, "after", err)
	}
	return false, err
}

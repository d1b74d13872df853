package jepsentest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/histories"
)

// journal is where the scheduler records what happens, in order.
type journal interface {
	Append(op *histories.Op) error
}

// scheduler is the one goroutine that decides everything: it asks the generator,
// hands operations to workers, takes their completions, and records both. Nothing
// of its state is shared.
//
// Invariants: index order is journal order is the order of events; an invocation
// is recorded before a worker sees it; completions that have arrived are recorded
// before a new operation is invoked, because recording them late would make
// operations look concurrent that were not.
type scheduler struct {
	cfg     *Test
	threads *dsl.Threads
	gen     dsl.Generator
	workers []*worker
	done    chan completion
	journal journal
	stats   *counters
	start   time.Time
	logf    func(string, ...any)

	index int64
	busy  int
	timer *time.Timer
}

// watchInterval is how often workers are looked at that overstay their time.
const watchInterval = 250 * time.Millisecond

func (s *scheduler) now() time.Duration { return time.Since(s.start) }

// run drives the generator to its end and returns when every operation has
// completed or been given up. If ctx ends it stops early: it invokes nothing
// more, gives the clients the grace period to finish, and returns nil.
func (s *scheduler) run(ctx context.Context) (interrupted bool, err error) {
	s.timer = time.NewTimer(time.Hour)
	defer s.timer.Stop()
	for {
		if err := s.drain(); err != nil {
			return false, err
		}
		if ctx.Err() != nil {
			return true, s.stop()
		}
		now := s.now()
		var offer dsl.Offer
		if s.gen != nil {
			offer = s.gen.Op(s.threads.Context(now))
		}
		switch offer.State {
		case dsl.Done:
			if s.busy == 0 {
				return false, nil
			}
			err = s.wait(ctx, 0)
		case dsl.Pending:
			if s.busy == 0 && offer.Wake == 0 {
				return false, errors.New("run generator: it is pending, but no operation is in flight that could change that; " +
					"the test would wait forever")
			}
			err = s.wait(ctx, offer.Wake)
		case dsl.Ready:
			if offer.Op.Time > now {
				err = s.wait(ctx, offer.Op.Time)
			} else {
				err = s.dispatch(ctx, offer)
			}
		}
		if err != nil {
			return false, err
		}
	}
}

// drain takes the completions that have arrived.
func (s *scheduler) drain() error {
	for {
		select {
		case c := <-s.done:
			if err := s.complete(c); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// wait returns when a completion has been taken, the time until has come (0:
// no time), ctx has ended, or workers ought to be looked at.
func (s *scheduler) wait(ctx context.Context, until time.Duration) error {
	d := watchInterval
	if until != 0 {
		d = min(d, until-s.now())
	}
	if d <= 0 {
		return nil
	}
	s.timer.Reset(d)
	select {
	case c := <-s.done:
		return s.complete(c)
	case <-s.timer.C:
		return s.abandonOverdue()
	case <-ctx.Done():
		return nil
	}
}

func (s *scheduler) dispatch(ctx context.Context, offer dsl.Offer) error {
	op := offer.Op
	th, err := dsl.Check(s.threads.Context(op.Time), op)
	if err != nil {
		return fmt.Errorf("run generator: %w", err)
	}
	inv := histories.Op{Index: s.index, Time: op.Time, Process: op.Process, F: op.F, Value: op.Value, Extra: op.Extra}
	if !inv.Process.IsClient() {
		inv.Type, inv.Phase = histories.Info, histories.Begin
	}
	w := s.workers[th]
	s.gen = offer.Next
	s.threads.Busy(th)
	s.busy++
	w.running, w.since, w.recorded = true, time.Now(), op.Kind == dsl.Invoke
	if w.recorded {
		s.index++
		if err := s.journal.Append(&inv); err != nil {
			return err
		}
		s.stats.invoked(&inv)
		s.update(&inv, op.Time)
	}
	w.inv = inv
	w.inbox <- job{inv, op.Kind}
	return nil
}

func (s *scheduler) update(ev *histories.Op, at time.Duration) {
	if s.gen != nil {
		s.gen = s.gen.Update(s.threads.Context(at), ev)
	}
}

// complete records what a worker reports.
func (s *scheduler) complete(c completion) error {
	w := c.worker
	if s.workers[w.thread] != w {
		return nil // it was abandoned, and has been accounted for
	}
	s.busy--
	w.running = false
	s.threads.Free(w.thread)
	if !w.recorded {
		return nil
	}
	op := c.op
	op.Index, op.Time = s.index, s.now()
	s.index++
	if err := s.journal.Append(&op); err != nil {
		return err
	}
	s.stats.completed(&op)
	s.update(&op, op.Time)
	if op.Process.IsClient() && op.Type == histories.Info {
		s.threads.Retire(w.thread)
	}
	return nil
}

// abandonOverdue gives up the clients that ignore the end of their context.
func (s *scheduler) abandonOverdue() error {
	if s.cfg.OpTimeout < 0 {
		return nil
	}
	for _, w := range s.workers {
		if !w.running || !w.isClient() || time.Since(w.since) < s.cfg.OpTimeout+s.cfg.Grace {
			continue
		}
		s.logf("process %v ignores the end of its context: operation %d (%s) is given up", w.inv.Process, w.inv.Index, w.inv.F)
		if err := s.abandon(w, "abandoned"); err != nil {
			return err
		}
	}
	return nil
}

// abandon replaces a worker by a new one, and records that nobody knows what
// became of its operation.
func (s *scheduler) abandon(w *worker, why string) error {
	op := w.inv
	if op.Process.IsClient() {
		op.Type = histories.Info
	} else {
		op.Phase = histories.End
	}
	op.Error = histories.Keyword(why)
	if err := s.complete(completion{w, op}); err != nil {
		return err
	}
	s.workers[w.thread] = w.replace()
	return nil
}

// stop ends the run early: the workers' contexts have ended with the run's, so
// clients that listen to them return soon; the others are given up.
func (s *scheduler) stop() error {
	deadline := time.NewTimer(s.cfg.Grace)
	defer deadline.Stop()
	for s.busy > 0 {
		select {
		case c := <-s.done:
			if err := s.complete(c); err != nil {
				return err
			}
		case <-deadline.C:
			for _, w := range s.workers {
				if w.running {
					if err := s.abandon(w, "interrupted"); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

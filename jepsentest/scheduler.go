package jepsentest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/store"
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
	done    *finished
	journal journal
	stats   *counters
	start   time.Time
	logf    func(string, ...any)

	index     int64
	last      time.Duration // the time of the last entry
	busy      int
	timer     *time.Timer
	nextWatch time.Duration // when to look at the workers again
}

// yields is how often the scheduler lets others run before it sleeps. It costs
// less than a microsecond when there is nobody to run.
const yields = 3

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
		if now >= s.nextWatch {
			if err := s.abandonOverdue(now); err != nil {
				return false, err
			}
		}
		var offer dsl.Offer
		if s.gen != nil {
			offer = s.gen.Op(s.threads.Context(now))
		}
		switch offer.State {
		case dsl.Done:
			if s.busy == 0 {
				return false, nil
			}
			s.wait(ctx, 0)
		case dsl.Pending:
			if offer.Wake <= now {
				offer.Wake = 0 // it has been asked since, and is still pending
			}
			if s.busy == 0 && offer.Wake == 0 {
				return false, errors.New("run generator: it is pending, but no operation is in flight that could change that; " +
					"the test would wait forever")
			}
			s.wait(ctx, offer.Wake)
		case dsl.Ready:
			if offer.Op.Time > now {
				s.wait(ctx, offer.Op.Time)
			} else if err := s.dispatch(now, offer); err != nil {
				return false, err
			}
		}
	}
}

// drain takes the completions that have arrived.
func (s *scheduler) drain() error {
	for w := s.done.take(); w != nil; {
		next := w.next // w may be at work again soon
		if err := s.complete(w); err != nil {
			return err
		}
		w = next
	}
	return nil
}

// wait returns when a completion has arrived, the time until has come (0: no
// time), ctx has ended, or workers ought to be looked at.
func (s *scheduler) wait(ctx context.Context, until time.Duration) {
	// Clients that answer at once have done so when the goroutines that are ready
	// have run. Then several completions are taken together, and nobody sleeps.
	for range yields {
		runtime.Gosched()
		if s.done.any() {
			return
		}
	}
	now := s.now()
	d := s.nextWatch - now
	if until != 0 {
		d = min(d, until-now)
	}
	if d <= 0 || !s.done.sleep() {
		return
	}
	defer s.done.awake()
	s.timer.Reset(d)
	select {
	case <-s.done.wake:
	case <-s.timer.C:
	case <-ctx.Done():
	}
}

// dispatch hands what is offered to its worker.
func (s *scheduler) dispatch(now time.Duration, offer dsl.Offer) error {
	op := offer.Op
	th, err := dsl.Check(s.threads.Context(op.Time), op)
	if err != nil {
		return fmt.Errorf("run generator: %w", err)
	}
	w := s.workers[th]
	at := max(op.Time, s.last) // whatever was scheduled, entries are in order of time
	w.inv = histories.Op{Index: s.index, Time: at, Process: op.Process, F: op.F, Value: op.Value, Extra: op.Extra}
	if !op.Process.IsClient() {
		w.inv.Type, w.inv.Phase = histories.Info, histories.Begin
	}
	s.gen = offer.Next
	s.threads.Busy(th)
	s.busy++
	w.running, w.since, w.kind = true, now, op.Kind
	if op.Kind == dsl.Invoke {
		s.index++
		if err := s.journal.Append(&w.inv); err != nil {
			return err
		}
		s.stats.invoked(&w.inv)
		s.last = at
		s.update(&w.inv, at)
	}
	w.inbox <- struct{}{}
	return nil
}

func (s *scheduler) update(ev *histories.Op, at time.Duration) {
	if s.gen != nil {
		s.gen = s.gen.Update(s.threads.Context(at), ev)
	}
}

// complete records what a worker reports.
func (s *scheduler) complete(w *worker) error {
	if s.workers[w.thread] != w {
		return nil // it was abandoned, and has been accounted for
	}
	return s.record(w, &w.out)
}

// record notes that the operation of w has completed as op.
func (s *scheduler) record(w *worker, op *histories.Op) error {
	s.busy--
	w.running = false
	s.threads.Free(w.thread)
	if w.kind != dsl.Invoke {
		return nil
	}
	op.Index, op.Time = s.index, s.now()
	err := s.journal.Append(op)
	if errors.Is(err, store.ErrUnencodable) {
		// A value that cannot be stored is the client's fault, and no reason to
		// lose the history: what it did is not known, and why is.
		op.Type, op.Value, op.Extra = histories.Info, histories.Nil(), nil
		op.Error = histories.List(histories.Keyword("unencodable"), histories.String(shorten(err.Error(), 500)))
		s.logf("%s returned what cannot be stored: %s", op.F, shorten(err.Error(), 500))
		err = s.journal.Append(op)
	}
	if err != nil {
		return err
	}
	s.index++
	s.last = op.Time
	s.stats.completed(op)
	s.update(op, op.Time)
	if op.Process.IsClient() && op.Type == histories.Info {
		s.threads.Retire(w.thread)
	}
	return nil
}

// limit returns how long a worker may be at an operation before it is given up,
// and false if forever.
func (s *scheduler) limit(w *worker) (time.Duration, bool) {
	d := s.cfg.NemesisTimeout
	if w.isClient() {
		d = s.cfg.OpTimeout
	}
	return d + s.cfg.Grace, d >= 0
}

// abandonOverdue gives up the clients and nemeses that take longer than they
// may, and sets nextWatch to when the next one could: one that is running now, or
// one that begins after this.
func (s *scheduler) abandonOverdue(now time.Duration) error {
	s.nextWatch = now + time.Hour
	for _, w := range s.workers {
		limit, limited := s.limit(w)
		if !limited {
			continue
		}
		since := now
		if w.running && w.kind == dsl.Invoke {
			since = w.since
		}
		if now-since < limit {
			s.nextWatch = min(s.nextWatch, since+limit)
			continue
		}
		s.logf("process %v does not return within %v: operation %d (%s) is given up", w.inv.Process, limit, w.inv.Index, w.inv.F)
		if err := s.abandon(w, "abandoned"); err != nil {
			return err
		}
		s.nextWatch = min(s.nextWatch, now+limit)
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
	if err := s.record(w, &op); err != nil {
		return err
	}
	s.workers[w.thread] = w.replace()
	return nil
}

// nemesisGrace is how long a nemesis has to finish what it is doing when the run
// is interrupted. It is longer than that of clients: a fault that comes about
// after the healing would stay.
const nemesisGrace = 10 * time.Second

// stop ends the run early: the workers' contexts have ended with the run's, so
// those that listen to them return soon; the others are given up.
func (s *scheduler) stop() error {
	clients, nemeses := time.NewTimer(s.cfg.Grace), time.NewTimer(timeLeft(max(nemesisGrace, s.cfg.Grace)))
	defer clients.Stop()
	defer nemeses.Stop()
	for s.busy > 0 {
		err := s.drain()
		if err != nil {
			return err
		}
		if s.busy == 0 || !s.done.sleep() {
			continue
		}
		select {
		case <-s.done.wake:
		case <-clients.C:
			err = s.abandonAll((*worker).isClient)
		case <-nemeses.C:
			err = s.abandonAll(func(*worker) bool { return true })
		}
		s.done.awake()
		if err != nil {
			return err
		}
	}
	return nil
}

// abandonAll gives up the workers that are running and satisfy which.
func (s *scheduler) abandonAll(which func(*worker) bool) error {
	for _, w := range s.workers {
		if w.running && which(w) {
			if err := s.abandon(w, "interrupted"); err != nil {
				return err
			}
		}
	}
	return nil
}

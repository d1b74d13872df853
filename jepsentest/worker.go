package jepsentest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/histories"
)

// worker is one thread of the test: a goroutine that carries out one operation
// at a time.
//
// The scheduler writes the first group of fields while the worker is idle; a
// message in inbox hands them over; the worker hands itself back through done,
// with out filled in. So nothing is allocated for an operation that succeeds. A
// worker that has been abandoned is not handed back.
type worker struct {
	inv     histories.Op // the running operation
	kind    dsl.Kind     // what is to be done with it
	running bool
	since   time.Duration // when it was handed over
	out     histories.Op  // its completion

	op     *histories.Op // the client's copy of inv
	thread dsl.Thread
	inbox  chan struct{} // room for one: the scheduler never waits for a worker
	done   *finished
	next   *worker         // in the list of those that have finished
	ended  chan struct{}   // closed when the goroutine has ended
	ctx    context.Context // ends when the run is interrupted
	run    func(ctx context.Context, op, out *histories.Op)
	make   func() *worker // makes its replacement
	client *clientSlot    // nil for a nemesis
	logf   func(string, ...any)
}

func (w *worker) isClient() bool { return w.client != nil }

func newWorker(ctx context.Context, th dsl.Thread, done *finished, logf func(string, ...any)) *worker {
	return &worker{thread: th, inbox: make(chan struct{}, 1), done: done,
		ended: make(chan struct{}), ctx: ctx, logf: logf}
}

// loop carries out operations until the inbox is closed. Code of the user's that
// ends the goroutine (runtime.Goexit, as FailNow does) ends an operation, not
// the worker.
func (w *worker) loop() {
	busy := false
	defer func() {
		if busy {
			w.out = w.inv
			w.out.Error = histories.String("the goroutine was ended: do not call FailNow or the like")
			if w.isClient() {
				w.out.Type = histories.Info
			} else {
				w.out.Phase = histories.End
			}
			w.done.put(w)
			go w.loop()
			return
		}
		if w.client != nil {
			w.client.close()
		}
		close(w.ended)
	}()
	for range w.inbox {
		busy = true
		w.perform()
		w.done.put(w)
		busy = false
	}
}

// perform carries out one operation.
func (w *worker) perform() {
	switch w.kind {
	case dsl.SleepKind:
		ns, _ := w.inv.Value.Int()
		sleep(w.ctx, time.Duration(ns))
	case dsl.LogKind:
		text, _ := w.inv.Value.Str()
		w.logf("%s", text)
	default:
		// A client that lets something go on after it has returned an error, such
		// as a call that cannot be cancelled, may go on reading its operation: it
		// must not become another one.
		if w.op == nil || w.out.Type != histories.OK {
			w.op = new(histories.Op)
		}
		*w.op = w.inv
		w.run(w.ctx, w.op, &w.out)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// replace starts a worker in place of w, whose goroutine may hang forever. If
// it ever comes back it finds that nobody listens, closes its client and ends.
func (w *worker) replace() *worker {
	close(w.inbox)
	n := w.make()
	go n.loop()
	return n
}

// clientSlot holds the client of a thread, and opens a new one for each process.
type clientSlot struct {
	proto   Client
	node    string
	timeout time.Duration // of each operation; negative means none
	grace   time.Duration
	logf    func(string, ...any)

	open    Client
	process histories.Process // who opened it
	logged  string            // the last error of Open that was logged
}

// invoke carries out op and writes its completion to out. It never panics.
func (s *clientSlot) invoke(ctx context.Context, op, out *histories.Op) {
	*out = *op
	if s.timeout >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	if s.open == nil || s.process != op.Process {
		if err := s.reopen(ctx, op.Process); err != nil {
			// Nothing was sent: the operation certainly did not take place.
			out.Type = histories.Fail
			out.Error = histories.List(histories.Keyword("no-client"), histories.String(err.Error()))
			if s.logged != err.Error() {
				s.logged = err.Error()
				s.logf("process %v cannot open a client for %s: %v", op.Process, s.node, err)
			}
			return
		}
	}
	value, err := s.call(ctx, op)
	var panicked *panicError
	switch {
	case err == nil:
		out.Type, out.Value = histories.OK, value
	case errors.As(err, &panicked):
		out.Type, out.Error = histories.Info, errorValue(err)
		s.logf("client panicked in operation %d (%s %v): %v\n%s", op.Index, op.F, op.Value, panicked.value, panicked.stack)
	case IsDefinite(err):
		out.Type, out.Error = histories.Fail, errorValue(err)
	default:
		out.Type, out.Error = histories.Info, errorValue(err)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			out.Error = histories.List(histories.Keyword("timeout"), histories.String(err.Error()))
		}
	}
}

// CodedError is an error of a client that says what kind it is, in one word: the
// recording then has [:word "message"].
type CodedError interface {
	error
	Code() string
}

func errorValue(err error) histories.Value {
	var coded CodedError
	if errors.As(err, &coded) {
		return histories.List(histories.Keyword(coded.Code()), histories.String(err.Error()))
	}
	return histories.String(err.Error())
}

type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("client panicked: %v", e.value) }

func (s *clientSlot) call(ctx context.Context, op *histories.Op) (v histories.Value, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{r, debug.Stack()}
		}
	}()
	return s.open.Invoke(ctx, op)
}

func (s *clientSlot) reopen(ctx context.Context, p histories.Process) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{r, debug.Stack()}
		}
	}()
	if r, ok := s.open.(Reusable); ok && r.Reusable() {
		s.process = p
		return nil
	}
	s.close()
	c, err := s.proto.Open(ctx, s.node)
	if err != nil {
		return err
	}
	s.open, s.process = c, p
	return nil
}

// close closes the open client, if there is one.
func (s *clientSlot) close() {
	if s.open == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.grace)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			s.logf("client for %s panicked when closed: %v", s.node, r)
		}
	}()
	if err := s.open.Close(ctx); err != nil {
		s.logf("close client for %s: %v", s.node, err)
	}
	s.open = nil
}

// invokeNemesis carries out an operation of a nemesis. It never panics.
func invokeNemesis(n Nemesis, timeout time.Duration, logf func(string, ...any)) func(ctx context.Context, op, out *histories.Op) {
	return func(ctx context.Context, op, out *histories.Op) {
		*out = *op
		out.Phase = histories.End
		defer func() {
			if r := recover(); r != nil {
				out.Error = histories.String(fmt.Sprintf("nemesis panicked: %v", r))
				logf("nemesis panicked in operation %d (%s): %v\n%s", op.Index, op.F, r, debug.Stack())
			}
		}()
		if timeout >= 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		v, err := n.Invoke(ctx, op)
		if err != nil {
			out.Error = errorValue(err)
			logf("nemesis: %s %v: %v", op.F, op.Value, err)
			return
		}
		out.Value = v
		logf("nemesis: %s %v", op.F, v)
	}
}

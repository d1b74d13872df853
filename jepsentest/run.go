package jepsentest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"sort"
	"sync"
	"syscall"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/store"
)

// ErrInterrupted is wrapped by the error of [Run] when the run ended before its
// generator did: by an interrupt, or because its context ended.
var ErrInterrupted = errors.New("the run was interrupted")

// Time limits of the parts of a run that must not hang, whatever the database does.
const (
	healTimeout     = 30 * time.Second
	collectTimeout  = 30 * time.Second
	teardownTimeout = 30 * time.Second
)

// Run carries out a test: it starts the database, opens the clients, drives the
// generator to its end while the history goes to disk, heals all faults, saves
// the logs, and takes the database down. It returns the recording; the caller
// should Close it.
//
// If ctx ends, or the process is interrupted, or the time limit of go test comes
// near, the generator is stopped, and everything after it happens as usual; the
// error then wraps [ErrInterrupted]. An [*AssumptionError] says that the run
// proves nothing. Whenever a history was begun the recording is returned, also
// along with an error.
func Run(ctx context.Context, t Test) (rec *Recording, err error) {
	r, err := newRun(t)
	if err != nil {
		return nil, err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if end, ok := safeEnd(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, end, errors.New("the time limit of go test is near"))
		defer cancel()
	}
	// A second interrupt ends the process at once, as people expect.
	context.AfterFunc(ctx, stop)
	return r.run(ctx)
}

// run is a test being carried out.
type run struct {
	Test
	dir     string
	env     *Env
	log     *runLog
	writer  *store.Writer
	stats   *counters
	elapsed time.Duration
	saved   bool // whether the history has been ended
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// newRun checks the test and fills in its defaults.
func newRun(t Test) (*run, error) {
	opts, err := Flags()
	if err != nil {
		return nil, err
	}
	if t.Name == "" {
		t.Name = "test"
	}
	if !namePattern.MatchString(t.Name) {
		return nil, configErrorf("name %q: letters, digits, '-', '_' and '.' only, and not at the beginning the last three", t.Name)
	}
	if t.Client == nil {
		return nil, configErrorf("no Client")
	}
	if t.Generator == nil {
		return nil, configErrorf("no Generator: nothing would be done")
	}
	if len(t.Nodes) == 0 {
		t.Nodes = []string{"local"}
	}
	for i, n := range t.Nodes {
		if slices.Contains(t.Nodes[:i], n) {
			return nil, configErrorf("node %q is given twice", n)
		}
	}
	if t.Concurrency < 0 {
		return nil, configErrorf("Concurrency is %d", t.Concurrency)
	}
	if t.Concurrency == 0 {
		if t.Concurrency, err = opts.Threads(len(t.Nodes), "2n"); err != nil {
			return nil, err
		}
	}
	for name := range t.Lanes {
		if name == "nemesis" || name == "" {
			return nil, configErrorf("a lane cannot be called %q", name)
		}
	}
	if opts.Seed != 0 {
		t.Seed = opts.Seed
	}
	if t.Seed == 0 {
		t.Seed = rand.Uint64N(1<<53) + 1 // fits into every notation of numbers
	}
	if t.OpTimeout == 0 {
		t.OpTimeout = 5 * time.Second
	}
	if t.NemesisTimeout == 0 {
		t.NemesisTimeout = time.Minute
	}
	if t.Grace <= 0 {
		t.Grace = 2 * time.Second
	}
	if t.ProgressEvery <= 0 {
		t.ProgressEvery = 5 * time.Second
	}
	if t.StoreDir == "" {
		t.StoreDir = opts.Store
	}
	if t.StoreDir == "" {
		t.StoreDir = "store"
	}
	return &run{Test: t}, nil
}

func (r *run) run(ctx context.Context) (rec *Recording, err error) {
	begun := time.Now()
	root, err := filepath.Abs(r.StoreDir)
	if err != nil {
		return nil, fmt.Errorf("make the directory of the run: %w", err)
	}
	place, err := store.Root(root).NewRun(r.Name, begun)
	if err != nil {
		return nil, fmt.Errorf("make the directory of the run: %w", err)
	}
	r.dir = place.Dir
	r.log, err = openLog(filepath.Join(r.dir, "run.log"), r.Log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.log.close()) }()
	r.env = &Env{
		// No two runs that are stored in one place have the same directory.
		RunID: fmt.Sprintf("%s-%s-%d", r.Name, filepath.Base(r.dir), os.Getpid()),
		Dir:   r.dir, Nodes: r.Nodes, Seed: r.Seed, Logf: r.log.printf,
	}
	r.env.Logf("run %s, seed %d, stored in %s", r.Name, r.Seed, r.dir)
	r.writer, err = store.Create(place.History(), store.Options{Names: r.names()})
	if err != nil {
		return nil, fmt.Errorf("begin the history: %w", err)
	}
	if err := r.writer.SetMeta(r.meta(begun)); err != nil {
		return nil, errors.Join(fmt.Errorf("begin the history: %w", err), r.writer.Close())
	}
	r.stats = &counters{start: begun}

	err = errors.Join(r.guarded(ctx), r.saveHistory())
	rec, openErr := r.recording()
	if openErr != nil {
		return nil, errors.Join(err, openErr)
	}
	if err == nil {
		err = r.checkAssumptions()
	}
	if err != nil {
		r.env.Logf("%v", err)
	}
	r.env.Logf("%v in %.1f s, stored in %s", rec.Counts, r.elapsed.Seconds(), r.dir)
	return rec, err
}

// saveHistory ends the history: nothing more will happen in it.
func (r *run) saveHistory() error {
	if r.saved {
		return nil
	}
	r.saved = true
	if err := r.writer.Close(); err != nil {
		return fmt.Errorf("save the history: %w", err)
	}
	return nil
}

// safely calls f, which is the user's or calls what is, and turns a panic into
// an error: one part that breaks must not keep the others from cleaning up.
func safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// guarded does everything for which the database is needed.
func (r *run) guarded(ctx context.Context) (err error) {
	if r.DB != nil {
		r.stats.setPhase("setup")
		panicked := true
		setupErr := safely(func() error {
			err := r.DB.Setup(ctx, r.env)
			panicked = false
			return err
		})
		if setupErr != nil {
			if panicked { // it had no chance to leave nothing behind
				setupErr = errors.Join(setupErr, r.takeDown(ctx))
			}
			return fmt.Errorf("start the database: %w", interruptedBy(ctx, setupErr))
		}
		defer func() { err = errors.Join(err, r.takeDown(ctx)) }()
	}
	if err := safely(func() error { return r.setupClient(ctx) }); err != nil {
		return fmt.Errorf("set up the database: %w", interruptedBy(ctx, err))
	}
	defer func() { err = errors.Join(err, r.heal(ctx)) }()
	for name, n := range r.nemeses() {
		if s, ok := n.(NemesisSetup); ok {
			if err := safely(func() error { return s.Setup(ctx) }); err != nil {
				return fmt.Errorf("set up %s: %w", name, interruptedBy(ctx, err))
			}
		}
	}
	return safely(func() error { return r.drive(ctx) })
}

// interruptedBy marks an error as the consequence of an interrupt, if there was one.
func interruptedBy(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w (%w): %w", ErrInterrupted, context.Cause(ctx), err)
}

// drive runs the generator. When it returns, or panics, no operation is running
// any more but those that have been given up, and the history is saved.
func (r *run) drive(ctx context.Context) (err error) {
	r.stats.setPhase("main")
	ctx, cancel := context.WithCancel(ctx)
	s := r.newScheduler(ctx)
	var wg sync.WaitGroup
	stopProgress := make(chan struct{})
	wg.Go(func() { r.progress(stopProgress) })
	defer func() {
		r.elapsed = s.now()
		cancel() // ends what is running, if the generator broke off
		close(stopProgress)
		wg.Wait()
		s.close(timeLeft(r.Grace))
		err = errors.Join(err, r.saveHistory())
	}()
	interrupted, err := s.run(ctx)
	if err == nil && interrupted {
		err = fmt.Errorf("%w after %.1f s: %w", ErrInterrupted, s.now().Seconds(), context.Cause(ctx))
	}
	return err
}

// newScheduler starts the workers.
func (r *run) newScheduler(ctx context.Context) *scheduler {
	names := r.names()
	total := r.Concurrency + len(names)
	s := &scheduler{
		cfg:     &r.Test,
		threads: dsl.NewThreads(r.Concurrency, r.Seed, names...),
		gen:     r.Generator,
		done:    newFinished(),
		journal: r.writer,
		stats:   r.stats,
		start:   time.Now(),
		logf:    r.env.Logf,
	}
	r.Generator = nil // so that a billion operations leave no trail in memory
	r.stats.start = s.start
	nemeses := r.nemeses()
	for i := range total {
		var make func() *worker
		make = func() *worker {
			w := newWorker(ctx, dsl.Thread(i), s.done, r.env.Logf)
			w.make = make
			if i < r.Concurrency {
				w.client = &clientSlot{proto: r.Client, node: r.Nodes[i%len(r.Nodes)], timeout: r.OpTimeout,
					grace: r.Grace, logf: r.env.Logf}
				w.run = w.client.invoke
			} else {
				w.run = invokeNemesis(nemeses[names[i-r.Concurrency]], r.NemesisTimeout, r.env.Logf)
			}
			return w
		}
		w := make()
		s.workers = append(s.workers, w)
		go w.loop()
	}
	return s
}

// nemeses returns all nemeses by the names of their threads.
func (r *run) nemeses() map[string]Nemesis {
	all := map[string]Nemesis{}
	for name, n := range r.Lanes {
		all[name] = n
	}
	if r.Nemesis != nil {
		all["nemesis"] = r.Nemesis
	}
	return all
}

// names returns the names of the named threads: the nemesis first.
func (r *run) names() histories.Names {
	var names histories.Names
	for name := range r.Lanes {
		names = append(names, name)
	}
	sort.Strings(names)
	if r.Nemesis != nil {
		names = slices.Insert(names, 0, "nemesis")
	}
	return names
}

// setupClient lets a client prepare the database, and find out early that the
// nodes do not answer.
func (r *run) setupClient(ctx context.Context) (err error) {
	if _, ok := r.Client.(Setupper); !ok {
		return nil
	}
	c, err := r.Client.Open(ctx, r.Nodes[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	if s, ok := c.(Setupper); ok {
		return s.Setup(ctx)
	}
	return nil
}

// cleanup returns a context for what must happen even if ctx has ended, but
// before go test kills the process.
func cleanup(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), timeLeft(d))
}

// heal undoes all faults and asks whether they had an effect.
func (r *run) heal(ctx context.Context) error {
	r.stats.setPhase("heal")
	ctx, cancel := cleanup(ctx, healTimeout)
	defer cancel()
	var errs []error
	for name, n := range r.nemeses() {
		if err := safely(func() error { return n.Heal(ctx) }); err != nil {
			errs = append(errs, fmt.Errorf("heal the faults of %s: %w", name, err))
			continue
		}
		if c, ok := n.(EffectChecker); ok {
			if err := safely(func() error { return c.CheckEffects(ctx) }); err != nil {
				errs = append(errs, &AssumptionError{err.Error()})
			}
		}
	}
	return errors.Join(errs...)
}

// takeDown saves the logs of the nodes and stops the database.
func (r *run) takeDown(ctx context.Context) error {
	r.stats.setPhase("teardown")
	var errs []error
	if lc, ok := r.DB.(LogCollector); ok {
		c, cancel := cleanup(ctx, collectTimeout)
		if err := safely(func() error { return lc.CollectLogs(c, filepath.Join(r.dir, "nodes")) }); err != nil {
			errs = append(errs, fmt.Errorf("collect the logs of the nodes: %w", err))
		}
		cancel()
	}
	c, cancel := cleanup(ctx, teardownTimeout)
	defer cancel()
	if err := safely(func() error { return r.DB.Teardown(c, r.env) }); err != nil {
		errs = append(errs, fmt.Errorf("stop the database: %w", err))
	}
	return errors.Join(errs...)
}

func (r *run) progress(stop <-chan struct{}) {
	tick := time.NewTicker(r.ProgressEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.env.Logf("%s", r.stats.line())
		case <-stop:
			return
		}
	}
}

func (r *run) checkAssumptions() error {
	n := r.stats.counts()
	switch rate := float64(n.OK) / max(r.elapsed.Seconds(), 1e-3); {
	case r.MinRate < 0:
		return nil
	case n.OK == 0:
		return &AssumptionError{fmt.Sprintf("no operation of a client succeeded (%v)", n)}
	case rate < r.MinRate:
		return &AssumptionError{fmt.Sprintf("only %.1f operations per second succeeded; the test asks for %.1f", rate, r.MinRate)}
	}
	return nil
}

// close lets all workers end, which close their clients, and waits for them
// for the grace period at most.
func (s *scheduler) close(grace time.Duration) {
	for _, w := range s.workers {
		close(w.inbox)
	}
	timeout := time.NewTimer(grace)
	defer timeout.Stop()
	for _, w := range s.workers {
		select {
		case <-w.ended:
		case <-timeout.C:
			s.logf("thread %d does not end within %v; it is left behind", w.thread, grace)
			return
		}
	}
}

package jepsentest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/jepsentest"
	"github.com/jepsentest/go/jepsentest/sim"
	"github.com/jepsentest/go/jepsentest/workload"
	"pgregory.net/rapid"
)

// reads is n operations on each client thread.
func reads(n int) dsl.Generator {
	return dsl.Clients(dsl.EachThread(dsl.Limit(n, dsl.Repeat(dsl.Once(dsl.Op{F: "read"})))))
}

// run runs a test and returns the history.
func run(t *testing.T, test jepsentest.Test) ([]histories.Op, *jepsentest.Recording, error) {
	t.Helper()
	if test.StoreDir == "" {
		test.StoreDir = t.TempDir()
	}
	rec, err := jepsentest.Run(t.Context(), test)
	if rec == nil {
		return nil, nil, err
	}
	t.Cleanup(func() {
		if err := rec.Close(); err != nil {
			t.Error(err)
		}
	})
	ops, readErr := histories.Collect(rec.History)
	if readErr != nil {
		t.Fatal(readErr)
	}
	if err := histories.Check(rec.History.Source()); err != nil {
		t.Fatalf("the history is malformed: %v", err)
	}
	return ops, rec, err
}

func completions(ops []histories.Op) (out []histories.Op) {
	for _, op := range ops {
		if op.Process.IsClient() && op.Type != histories.Invoke {
			out = append(out, op)
		}
	}
	return out
}

// fakeClient does what its functions say; nil functions succeed.
type fakeClient struct {
	open   func(node string) error
	invoke func(ctx context.Context, op *histories.Op) (histories.Value, error)
	opened *atomic.Int64
	closed *atomic.Int64
}

func (c *fakeClient) Open(_ context.Context, node string) (jepsentest.Client, error) {
	if c.open != nil {
		if err := c.open(node); err != nil {
			return nil, err
		}
	}
	if c.opened != nil {
		c.opened.Add(1)
	}
	return c, nil
}

func (c *fakeClient) Invoke(ctx context.Context, op *histories.Op) (histories.Value, error) {
	if c.invoke == nil {
		return histories.Int(1), nil
	}
	return c.invoke(ctx, op)
}

func (c *fakeClient) Close(context.Context) error {
	if c.closed != nil {
		c.closed.Add(1)
	}
	return nil
}

type codedError struct{ error }

func (codedError) Code() string { return "busy" }

func TestWhatClientsReturnIsWhatIsRecorded(t *testing.T) {
	for _, c := range []struct {
		name   string
		invoke func(ctx context.Context) (histories.Value, error)
		typ    histories.Type
		err    string // must occur in the recorded error
	}{
		{"a value", func(context.Context) (histories.Value, error) { return histories.Int(5), nil }, histories.OK, "nil"},
		{"an error", func(context.Context) (histories.Value, error) { return histories.Nil(), errors.New("lost") }, histories.Info, `"lost"`},
		{"a definite error", func(context.Context) (histories.Value, error) {
			return histories.Nil(), fmt.Errorf("put: %w", jepsentest.Definite(errors.New("refused")))
		}, histories.Fail, `"put: refused"`},
		{"an error with a code", func(context.Context) (histories.Value, error) {
			return histories.Nil(), jepsentest.Definite(codedError{errors.New("later")})
		}, histories.Fail, `[:busy "later"]`},
		{"a panic", func(context.Context) (histories.Value, error) { panic("oops") }, histories.Info, "client panicked: oops"},
		{"a timeout", func(ctx context.Context) (histories.Value, error) {
			<-ctx.Done()
			return histories.Nil(), ctx.Err()
		}, histories.Info, ":timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ops, rec, err := run(t, jepsentest.Test{
				Concurrency: 1, MinRate: -1, OpTimeout: 50 * time.Millisecond, Generator: reads(2),
				Client: &fakeClient{invoke: func(ctx context.Context, _ *histories.Op) (histories.Value, error) { return c.invoke(ctx) }},
			})
			if err != nil {
				t.Fatal(err)
			}
			got := completions(ops)
			if len(got) != 2 || got[0].Type != c.typ || !strings.Contains(got[0].Error.String(), c.err) {
				t.Fatalf("got %v, want %v with %s", got, c.typ, c.err)
			}
			// A crashed process never acts again.
			if again := got[1].Process == got[0].Process; again == (c.typ == histories.Info) {
				t.Errorf("the second operation ran on process %v, the first on %v", got[1].Process, got[0].Process)
			}
			if log, err := os.ReadFile(filepath.Join(rec.Dir, "run.log")); err != nil || c.name == "a panic" && !strings.Contains(string(log), "run_test.go") {
				t.Errorf("the log lacks the stack of the panic (%v):\n%s", err, log)
			}
		})
	}
}

func TestClientsAreOpenedForEachProcessAndClosed(t *testing.T) {
	var opened, closed atomic.Int64
	_, _, err := run(t, jepsentest.Test{
		Concurrency: 3, MinRate: -1, Generator: reads(4),
		Client: &fakeClient{opened: &opened, closed: &closed, invoke: func(context.Context, *histories.Op) (histories.Value, error) {
			return histories.Nil(), errors.New("crash")
		}},
	})
	if err != nil || opened.Load() != 12 || closed.Load() != 12 {
		t.Errorf("%d opened, %d closed, want 12 of both; %v", opened.Load(), closed.Load(), err)
	}
}

func TestClientThatCannotBeOpenedIsTriedAgain(t *testing.T) {
	tries := 0
	ops, _, err := run(t, jepsentest.Test{
		Concurrency: 1, Generator: reads(3),
		Client: &fakeClient{open: func(string) error {
			if tries++; tries < 3 {
				return errors.New("connection refused")
			}
			return nil
		}},
	})
	got := completions(ops)
	if err != nil || len(got) != 3 || got[0].Type != histories.Fail || got[2].Type != histories.OK ||
		got[0].Error.String() != `[:no-client "connection refused"]` {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestClientsThatIgnoreTheirContextAreAbandoned(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	ops, _, err := run(t, jepsentest.Test{
		Concurrency: 1, Generator: reads(2), OpTimeout: 20 * time.Millisecond, Grace: 20 * time.Millisecond,
		Client: &fakeClient{invoke: func(_ context.Context, op *histories.Op) (histories.Value, error) {
			if op.Process == 0 {
				<-release
			}
			return histories.Int(1), nil
		}},
	})
	got := completions(ops)
	if err != nil || len(got) != 2 || got[0].Type != histories.Info || got[0].Error.String() != ":abandoned" || got[1].Type != histories.OK {
		t.Errorf("got %v, %v", got, err)
	}
}

// fakeDB and fakeNemesis note what is done with them.
type trail struct {
	mu    sync.Mutex
	steps []string
}

func (l *trail) add(step string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps = append(l.steps, step)
}

type fakeDB struct {
	*trail
	setup func() error
}

func (d fakeDB) Setup(context.Context, *jepsentest.Env) error {
	d.add("setup")
	if d.setup != nil {
		return d.setup()
	}
	return nil
}
func (d fakeDB) Teardown(ctx context.Context, _ *jepsentest.Env) error {
	d.add("teardown")
	return ctx.Err()
}
func (d fakeDB) CollectLogs(ctx context.Context, dir string) error {
	d.add("logs")
	return ctx.Err()
}

type fakeNemesis struct {
	*trail
	invoke func(ctx context.Context, op *histories.Op) (histories.Value, error)
	effect error
}

func (n fakeNemesis) Setup(context.Context) error { n.add("nemesis setup"); return nil }
func (n fakeNemesis) Invoke(ctx context.Context, op *histories.Op) (histories.Value, error) {
	n.add(op.F)
	if n.invoke != nil {
		return n.invoke(ctx, op)
	}
	return op.Value, nil
}
func (n fakeNemesis) Heal(ctx context.Context) error     { n.add("heal"); return ctx.Err() }
func (n fakeNemesis) CheckEffects(context.Context) error { return n.effect }

func TestOrderOfARun(t *testing.T) {
	l := &trail{}
	ops, _, err := run(t, jepsentest.Test{
		Concurrency: 1, DB: fakeDB{trail: l}, Nemesis: fakeNemesis{trail: l}, Client: &fakeClient{},
		Generator: dsl.Phases(dsl.Nemesis(dsl.Invocation("cut", histories.String("n1"))), reads(1)),
	})
	if want := []string{"setup", "nemesis setup", "cut", "heal", "logs", "teardown"}; err != nil || !slices.Equal(l.steps, want) {
		t.Errorf("got %v, %v", l.steps, err)
	}
	if len(ops) != 4 || ops[0].Phase != histories.Begin || ops[1].Phase != histories.End || ops[0].Process != histories.Nemesis ||
		ops[1].Type != histories.Info {
		t.Errorf("got %v", ops)
	}
}

// However a run ends, faults are healed, logs saved and the database stopped.
func TestEverythingIsCleanedUpWhateverHappens(t *testing.T) {
	boom := errors.New("boom")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	full := []string{"setup", "nemesis setup", "cut", "heal", "logs", "teardown"}
	for _, c := range []struct {
		name  string
		ctx   context.Context
		setup func() error
		cut   func() error
		then  dsl.Generator
		want  []string
		err   error
		text  string
	}{
		{"setup fails", t.Context(), func() error { return boom }, nil, reads(1), []string{"setup"}, boom, "start the database"},
		{"setup panics", t.Context(), func() error { panic("boom") }, nil, reads(1), []string{"setup", "logs", "teardown"}, nil, "panic: boom"},
		{"the nemesis fails", t.Context(), nil, func() error { return boom }, reads(1), full, nil, ""},
		{"the nemesis panics", t.Context(), nil, func() error { panic("boom") }, reads(1), full, nil, ""},
		{"the generator breaks its contract", t.Context(), nil, nil, dsl.Map(func(_ dsl.Context, op dsl.Op) dsl.Op {
			op.Process = 99
			return op
		}, reads(1)), full, nil, "process 99"},
		{"the generator panics", t.Context(), nil, nil, dsl.Map(func(dsl.Context, dsl.Op) dsl.Op { panic("boom") }, reads(1)), full, nil, "panic: boom"},
		{"the generator is stuck", t.Context(), nil, nil, new(dsl.Promise), full, nil, "wait forever"},
		{"an interrupt", ctx, nil, func() error { cancel(); return nil }, dsl.Clients(dsl.Repeat(dsl.Once(dsl.Op{F: "read"}))), full, jepsentest.ErrInterrupted, "after"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &trail{}
			rec, err := jepsentest.Run(c.ctx, jepsentest.Test{
				Concurrency: 2, StoreDir: t.TempDir(), DB: fakeDB{trail: l, setup: c.setup}, Client: &fakeClient{},
				Nemesis: fakeNemesis{trail: l, invoke: func(context.Context, *histories.Op) (histories.Value, error) {
					if c.cut != nil {
						return histories.Nil(), c.cut()
					}
					return histories.Nil(), nil
				}},
				Generator: dsl.Phases(dsl.Nemesis(dsl.Once(dsl.Op{F: "cut"})), c.then),
			})
			if !slices.Equal(l.steps, c.want) {
				t.Errorf("got %v, want %v", l.steps, c.want)
			}
			if (err != nil) != (c.err != nil || c.text != "") || c.err != nil && !errors.Is(err, c.err) || err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v", err)
			}
			if rec == nil {
				t.Fatal("no recording")
			}
			ops, err := histories.Collect(rec.History)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(c.want, "cut") && (len(ops) < 2 || ops[1].F != "cut") {
				t.Errorf("the history is %v", ops)
			}
			if err := rec.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAnInterruptedRunAccountsForEveryOperation(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	release := make(chan struct{})
	defer close(release)
	rec, err := jepsentest.Run(ctx, jepsentest.Test{
		Concurrency: 4, StoreDir: t.TempDir(), Grace: 50 * time.Millisecond, MinRate: -1,
		Generator: dsl.Clients(dsl.Repeat(dsl.Once(dsl.Op{F: "read"}))),
		Client: &fakeClient{invoke: func(ctx context.Context, op *histories.Op) (histories.Value, error) {
			if op.Process%2 == 0 {
				<-release // ignores its context
			}
			<-ctx.Done()
			return histories.Nil(), ctx.Err()
		}},
	})
	if !errors.Is(err, jepsentest.ErrInterrupted) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	ops, err := histories.Collect(rec.History)
	if err != nil || len(ops) != 8 {
		t.Fatalf("got %v, %v, want four operations with their completions", ops, err)
	}
	for _, op := range ops[4:] {
		if op.Type != histories.Info {
			t.Errorf("got %v", op)
		}
	}
	if err := rec.Close(); err != nil {
		t.Error(err)
	}
}

func TestRunsThatProveNothing(t *testing.T) {
	failing := &fakeClient{invoke: func(context.Context, *histories.Op) (histories.Value, error) {
		return histories.Nil(), jepsentest.Definite(errors.New("no"))
	}}
	for _, c := range []struct {
		name string
		test jepsentest.Test
		want string
	}{
		{"nothing succeeded", jepsentest.Test{Client: failing, Generator: reads(3)}, "no operation of a client succeeded"},
		{"too little succeeded", jepsentest.Test{Client: &fakeClient{}, Generator: reads(1), MinRate: 1e9}, "operations per second succeeded"},
		{"a fault without effect", jepsentest.Test{Client: &fakeClient{}, Generator: reads(1),
			Nemesis: fakeNemesis{trail: &trail{}, effect: errors.New("nothing was dropped")}}, "nothing was dropped"},
	} {
		_, _, err := run(t, c.test)
		var a *jepsentest.AssumptionError
		if !errors.As(err, &a) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

func TestMisconfiguredTests(t *testing.T) {
	good := jepsentest.Test{Client: &fakeClient{}, Generator: reads(1)}
	for want, change := range map[string]func(*jepsentest.Test){
		"no Client":                func(t *jepsentest.Test) { t.Client = nil },
		"no Generator":             func(t *jepsentest.Test) { t.Generator = nil },
		`name "a/b"`:               func(t *jepsentest.Test) { t.Name = "a/b" },
		`name ".."`:                func(t *jepsentest.Test) { t.Name = ".." },
		`node "n1" is given twice`: func(t *jepsentest.Test) { t.Nodes = []string{"n1", "n2", "n1"} },
		"Concurrency is -1":        func(t *jepsentest.Test) { t.Concurrency = -1 },
		`cannot be called "nemesis"`: func(t *jepsentest.Test) {
			t.Lanes = map[string]jepsentest.Nemesis{"nemesis": fakeNemesis{}}
		},
	} {
		test := good
		change(&test)
		_, _, err := run(t, test)
		var c *jepsentest.ConfigError
		if !errors.As(err, &c) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestLanesOverlap(t *testing.T) {
	both := make(chan struct{}, 2)
	meet := func(ctx context.Context, _ *histories.Op) (histories.Value, error) {
		both <- struct{}{}
		for len(both) < 2 { // until the other lane has begun, too
			if ctx.Err() != nil {
				return histories.Nil(), ctx.Err()
			}
			time.Sleep(time.Millisecond)
		}
		return histories.Nil(), nil
	}
	ops, rec, err := run(t, jepsentest.Test{
		Concurrency: 1, Client: &fakeClient{},
		Nemesis: fakeNemesis{trail: &trail{}, invoke: meet},
		Lanes:   map[string]jepsentest.Nemesis{"clock": fakeNemesis{trail: &trail{}, invoke: meet}},
		Generator: dsl.Phases(dsl.Any(dsl.Nemesis(dsl.Once(dsl.Op{F: "cut"})), dsl.Named("clock", dsl.Once(dsl.Op{F: "jump"}))),
			reads(1)),
	})
	if err != nil || len(ops) != 6 || ops[1].Phase != histories.Begin {
		t.Fatalf("got %v, %v", ops, err)
	}
	if name := rec.History.ProcessName(-2); name != "clock" {
		t.Errorf("process -2 is called %q", name)
	}
}

// Whatever clients do, histories are well-formed: entries pair up (which run
// checks), indices are dense, times never decrease, crashed processes stay
// away, and a process stays on its thread.
func TestHistoriesAreWellFormed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		threads := rapid.IntRange(1, 5).Draw(rt, "threads")
		seed := rapid.Uint64Range(1, 1000).Draw(rt, "seed")
		db := sim.NewLists(sim.ListOptions{Latency: -1, Aborts: 0.3, Crashes: 0.3, Seed: seed})
		w := workload.Append(workload.AppendOptions{})
		ops, _, err := run(t, jepsentest.Test{
			Concurrency: threads, Seed: seed, MinRate: -1, Client: jepsentest.ClientFunc(db.Invoke),
			Generator: dsl.Clients(dsl.Limit(rapid.IntRange(1, 60).Draw(rt, "operations"), w.Generator)),
		})
		if err != nil {
			rt.Fatal(err)
		}
		crashed := map[histories.Process]bool{}
		last := map[int64]histories.Process{} // by thread
		for i, op := range ops {
			thread := int64(op.Process) % int64(threads)
			if op.Index != int64(i) || crashed[op.Process] || op.Process < last[thread] || i > 0 && op.Time < ops[i-1].Time && op.Type != histories.Invoke {
				rt.Fatalf("entry %d: %v", i, op)
			}
			last[thread] = op.Process
			crashed[op.Process] = op.Type == histories.Info
		}
	})
}

func TestRunsLeaveNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 5 {
		if _, _, err := run(t, jepsentest.Test{Concurrency: 20, Client: &fakeClient{}, Generator: reads(20)}); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if after := runtime.NumGoroutine(); after > before {
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines before, %d after:\n%s", before, after, buf[:runtime.Stack(buf, true)])
	}
}

func TestRecordingCanBeOpenedAgain(t *testing.T) {
	_, rec, err := run(t, jepsentest.Test{Name: "again", Seed: 42, Concurrency: 1, Client: &fakeClient{}, Generator: reads(1),
		Options: map[string]string{"version": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	old, err := jepsentest.OpenRecording(rec.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if old.Name != "again" || old.Seed != 42 || old.RunID != rec.RunID || old.Again == "" {
		t.Errorf("got %+v", old)
	}
	if n, err := old.History.Len(); n != 2 || err != nil {
		t.Errorf("%d operations, %v", n, err)
	}
}

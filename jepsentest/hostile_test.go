package jepsentest_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/jepsentest"
)

// The tests in this file are about parts of a test that do not behave.

// A call that cannot be cancelled goes on after its client has given up. What it
// reads must stay the operation that it was given.
func TestOperationsStayWhatTheyWereForCallsThatOutliveThem(t *testing.T) {
	var changed atomic.Int64
	release := make(chan struct{})
	_, _, err := run(t, jepsentest.Test{
		Concurrency: 4, OpTimeout: 2 * time.Millisecond, MinRate: -1,
		Generator: dsl.Clients(dsl.Limit(200, dsl.Ops(func(ctx dsl.Context) dsl.Op {
			return dsl.Op{F: "write", Value: histories.Int(ctx.Rand().Int64())}
		}))),
		Client: &fakeClient{invoke: func(ctx context.Context, op *histories.Op) (histories.Value, error) {
			want := op.Value
			go func() {
				<-release
				if !op.Value.Equal(want) {
					changed.Add(1)
				}
			}()
			<-ctx.Done()
			return histories.Nil(), ctx.Err()
		}},
	})
	close(release)
	time.Sleep(10 * time.Millisecond)
	if err != nil || changed.Load() > 0 {
		t.Errorf("%d calls saw another operation; %v", changed.Load(), err)
	}
}

// A client that hangs is given up in time, also while others are busy.
func TestHungClientIsGivenUpWhileOthersAreBusy(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	ops, _, err := run(t, jepsentest.Test{
		Concurrency: 4, OpTimeout: 50 * time.Millisecond, Grace: 50 * time.Millisecond,
		Generator: dsl.Clients(dsl.TimeLimit(1500*time.Millisecond, dsl.Repeat(dsl.Once(dsl.Op{F: "read"})))),
		Client: &fakeClient{invoke: func(_ context.Context, op *histories.Op) (histories.Value, error) {
			if op.Process == 0 {
				<-release
			}
			time.Sleep(100 * time.Microsecond)
			return histories.Int(1), nil
		}},
	})
	i := slices.IndexFunc(ops, func(op histories.Op) bool { return op.Type == histories.Info })
	if err != nil || i < 0 || ops[i].Time > time.Second {
		t.Errorf("given up at %v; %v", ops[max(i, 0)], err)
	}
}

func TestSleepsAreNotCutShort(t *testing.T) {
	ops, _, err := run(t, jepsentest.Test{
		Concurrency: 1, OpTimeout: 20 * time.Millisecond, Grace: 20 * time.Millisecond, Client: &fakeClient{},
		Generator: dsl.Clients(dsl.Seq(dsl.Sleep(600*time.Millisecond), dsl.Once(dsl.Op{F: "read"}))),
	})
	if err != nil || len(ops) != 2 || ops[0].Time < 600*time.Millisecond {
		t.Errorf("got %v, %v", ops, err)
	}
}

func TestNemesisThatHangsIsGivenUp(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	ops, _, err := run(t, jepsentest.Test{
		Concurrency: 1, NemesisTimeout: 50 * time.Millisecond, Grace: 50 * time.Millisecond, Client: &fakeClient{},
		Nemesis: fakeNemesis{trail: &trail{}, invoke: func(context.Context, *histories.Op) (histories.Value, error) {
			<-release
			return histories.Nil(), nil
		}},
		Generator: dsl.Phases(dsl.Nemesis(dsl.Once(dsl.Op{F: "cut"})), reads(1)),
	})
	if err != nil || len(ops) != 4 || ops[1].Error.String() != ":abandoned" || ops[1].Phase != histories.End {
		t.Errorf("got %v, %v", ops, err)
	}
}

// FailNow and its like end a goroutine. That ends an operation, not the test.
func TestGoexitEndsAnOperationOnly(t *testing.T) {
	ops, _, err := run(t, jepsentest.Test{
		Concurrency: 1,
		Client: &fakeClient{invoke: func(_ context.Context, op *histories.Op) (histories.Value, error) {
			if op.Process == 0 {
				runtime.Goexit()
			}
			return histories.Int(1), nil
		}},
		Nemesis: fakeNemesis{trail: &trail{}, invoke: func(context.Context, *histories.Op) (histories.Value, error) {
			runtime.Goexit()
			return histories.Nil(), nil
		}},
		Generator: dsl.Phases(dsl.Nemesis(dsl.Once(dsl.Op{F: "cut"})), reads(2)),
	})
	got := completions(ops)
	if err != nil || len(got) != 2 || got[0].Type != histories.Info || got[1].Type != histories.OK {
		t.Errorf("got %v, %v", ops, err)
	}
}

func TestValuesThatCannotBeStoredDoNotEndTheRun(t *testing.T) {
	deep := histories.Nil()
	for range 5000 {
		deep = histories.List(deep)
	}
	ops, _, err := run(t, jepsentest.Test{
		Concurrency: 1, Generator: reads(3),
		Client: &fakeClient{invoke: func(_ context.Context, op *histories.Op) (histories.Value, error) {
			if op.Process == 0 {
				return deep, nil
			}
			return histories.Int(1), nil
		}},
	})
	got := completions(ops)
	if err != nil || len(got) != 3 || got[0].Type != histories.Info || !strings.HasPrefix(got[0].Error.String(), "[:unencodable") ||
		len(got[0].Error.String()) > 1000 || got[1].Type != histories.OK {
		t.Errorf("got %v, %v", got, err)
	}
}

// A generator that panics leaves no goroutine, no open client, and no messages.
func TestGeneratorThatPanicsLeavesNothingRunning(t *testing.T) {
	before := runtime.NumGoroutine()
	var opened, closed, messages atomic.Int64
	n := 0
	_, err := jepsentest.Run(t.Context(), jepsentest.Test{
		Concurrency: 4, StoreDir: t.TempDir(), ProgressEvery: time.Millisecond, MinRate: -1, Grace: time.Second,
		Log: func(string) { messages.Add(1) },
		Client: &fakeClient{opened: &opened, closed: &closed, invoke: func(ctx context.Context, _ *histories.Op) (histories.Value, error) {
			<-ctx.Done()
			return histories.Nil(), ctx.Err()
		}},
		Generator: dsl.Clients(dsl.Ops(func(dsl.Context) dsl.Op {
			if n++; n > 3 {
				panic("boom")
			}
			return dsl.Op{F: "read"}
		})),
	})
	if err == nil || !strings.Contains(err.Error(), "panic: boom") {
		t.Fatalf("got %v", err)
	}
	if opened.Load() != closed.Load() {
		t.Errorf("%d clients opened, %d closed", opened.Load(), closed.Load())
	}
	seen := messages.Load()
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before+1 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if now := runtime.NumGoroutine(); now > before+1 || messages.Load() != seen {
		t.Errorf("%d goroutines before, %d after; %d messages after the end", before, now, messages.Load()-seen)
	}
}

// panicky panics wherever it is told to.
type panickyDB struct {
	fakeDB
	logs bool
}

func (d panickyDB) CollectLogs(ctx context.Context, dir string) error {
	if d.logs {
		panic("logs")
	}
	return d.fakeDB.CollectLogs(ctx, dir)
}

type panickyNemesis struct{ fakeNemesis }

func (panickyNemesis) Heal(context.Context) error { panic("heal") }

func TestPanicsDoNotKeepOthersFromCleaningUp(t *testing.T) {
	l := &trail{}
	lanes := map[string]jepsentest.Nemesis{}
	for _, name := range []string{"a", "b", "c", "d"} {
		lanes[name] = fakeNemesis{trail: l}
	}
	_, _, err := run(t, jepsentest.Test{
		Concurrency: 1, Client: &fakeClient{}, Generator: reads(1), DB: panickyDB{fakeDB{trail: l}, true},
		Nemesis: panickyNemesis{fakeNemesis{trail: &trail{}}}, Lanes: lanes,
	})
	heals := 0
	for _, s := range l.steps {
		if s == "heal" {
			heals++
		}
	}
	if err == nil || heals != 4 || !slices.Contains(l.steps, "teardown") ||
		!strings.Contains(err.Error(), "panic: heal") || !strings.Contains(err.Error(), "panic: logs") {
		t.Errorf("steps %v; %v", l.steps, err)
	}
}

func TestInterruptDuringSetup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := jepsentest.Run(ctx, jepsentest.Test{StoreDir: t.TempDir(), Client: &fakeClient{}, Generator: reads(1),
		DB: fakeDB{trail: &trail{}, setup: func() error { cancel(); return ctx.Err() }}})
	if !errors.Is(err, jepsentest.ErrInterrupted) {
		t.Errorf("got %v", err)
	}
}

func TestRunIDsAreUnique(t *testing.T) {
	dir, seen := t.TempDir(), map[string]bool{}
	for range 5 {
		_, rec, err := run(t, jepsentest.Test{Name: "same", StoreDir: dir, Concurrency: 1, Client: &fakeClient{}, Generator: reads(1)})
		if err != nil || seen[rec.RunID] {
			t.Fatalf("%v, %v", rec, err)
		}
		seen[rec.RunID] = true
	}
}

// Offers for times that have passed are recorded in order, and a generator that
// is pending until a time that has passed is not asked without end.
func TestTimesOfBadGenerators(t *testing.T) {
	ops, _, err := run(t, jepsentest.Test{
		Concurrency: 2, Client: &fakeClient{},
		Generator: dsl.Clients(dsl.Limit(20, dsl.Map(func(_ dsl.Context, op dsl.Op) dsl.Op { op.Time = -5; return op },
			dsl.Repeat(dsl.Once(dsl.Op{F: "read"}))))),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(ops); i++ {
		if ops[i].Time < ops[i-1].Time {
			t.Fatalf("%v comes after %v", ops[i], ops[i-1])
		}
	}
	_, _, err = run(t, jepsentest.Test{Concurrency: 1, Client: &fakeClient{}, Generator: stale{}})
	if err == nil || !strings.Contains(err.Error(), "wait forever") {
		t.Errorf("got %v", err)
	}
}

type stale struct{}

func (stale) Op(dsl.Context) dsl.Offer                          { return dsl.Offer{State: dsl.Pending, Wake: 1} }
func (g stale) Update(dsl.Context, *histories.Op) dsl.Generator { return g }

// What is stored is the worst of what all checkers said, whoever asked, and
// whenever.
func TestStoredVerdicts(t *testing.T) {
	valid := fakeChecker{name: "v", verdict: folds.Valid}
	invalid := fakeChecker{name: "i", verdict: folds.Invalid}
	fails := fakeChecker{name: "f", err: errors.New("cannot read")}
	record := func(t *testing.T) *jepsentest.Recording {
		_, rec, err := run(t, jepsentest.Test{Concurrency: 1, Client: &fakeClient{}, Generator: reads(1)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rec.Verdict(); !errors.Is(err, jepsentest.ErrNotChecked) {
			t.Fatalf("before any check: %v", err)
		}
		return rec
	}
	want := func(t *testing.T, rec *jepsentest.Recording, v folds.Verdict) {
		t.Helper()
		if got, err := rec.Verdict(); got != v || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, v)
		}
	}
	match := func(rec *jepsentest.Recording, checkers ...folds.Checker) {
		_, _ = jepsentest.SatisfyAllChecks(checkers...).Match(rec)
	}
	t.Run("a checker that fails is no valid verdict", func(t *testing.T) {
		rec := record(t)
		match(rec, valid, fails)
		want(t, rec, folds.Unknown)
	})
	t.Run("several matchers", func(t *testing.T) {
		rec := record(t)
		match(rec, invalid)
		match(rec, valid)
		want(t, rec, folds.Invalid)
	})
	t.Run("an opened recording keeps what was stored", func(t *testing.T) {
		rec := record(t)
		match(rec, invalid)
		old, err := jepsentest.OpenRecording(rec.Dir)
		if err != nil {
			t.Fatal(err)
		}
		defer old.Close()
		match(old, valid)
		want(t, old, folds.Invalid)
		want(t, rec, folds.Invalid)
	})
	t.Run("a fold matcher", func(t *testing.T) {
		rec := record(t)
		match(rec, valid)
		if ok, err := haveReads(5).Match(rec); ok || err != nil {
			t.Fatal(ok, err)
		}
		want(t, rec, folds.Invalid)
	})
	t.Run("checked again with another result", func(t *testing.T) {
		rec := record(t)
		match(rec, fakeChecker{name: "x", verdict: folds.Invalid})
		match(rec, fakeChecker{name: "x", verdict: folds.Valid})
		want(t, rec, folds.Valid)
	})
}

func TestMatchersSayWhatIsWrongWithThemselves(t *testing.T) {
	h := histories.Must(histories.New())
	if _, err := jepsentest.HaveAnomaly("G1q").Match(h); err == nil || !strings.Contains(err.Error(), `unknown type of anomaly "G1q"`) {
		t.Errorf("got %v", err)
	}
	if _, err := jepsentest.SatisfyAllChecks(noReport{}).Match(h); err == nil || !strings.Contains(err.Error(), "no report") {
		t.Errorf("got %v", err)
	}
}

type noReport struct{}

func (noReport) Name() string                                                    { return "none" }
func (noReport) Check(context.Context, histories.History) (*folds.Report, error) { return nil, nil }

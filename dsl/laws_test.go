package dsl_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/dsl/simulate"
	"github.com/jepsentest/go/histories"
	"pgregory.net/rapid"
)

// maxInFlight returns how many operations were in flight at a time, at most.
func maxInFlight(h []histories.Op) int {
	n, most := 0, 0
	for i := range h {
		if h[i].IsInvocation() {
			n++
		} else {
			n--
		}
		most = max(most, n)
	}
	return most
}

func TestConcurrencyLimitLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "n")
		h, _ := simulate.Run(dsl.ConcurrencyLimit(n, drawGen(t, 2)), drawOptions(t))
		if got := maxInFlight(h); got > n {
			t.Fatalf("%d operations in flight under a limit of %d", got, n)
		}
	})
}

func TestRepeatAndCycleLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, k := rapid.IntRange(0, 9).Draw(t, "n"), rapid.IntRange(0, 5).Draw(t, "k")
		o := drawOptions(t)
		h, _ := simulate.Run(dsl.RepeatN(n, many("a")), o)
		if got := len(invocations(h)); got != n {
			t.Fatalf("repeated %d times, there are %d", n, got)
		}
		h, _ = simulate.Run(dsl.CycleN(n, dsl.Limit(k, many("a"))), o)
		if got := len(invocations(h)); got != n*k {
			t.Fatalf("%d cycles of %d are %d", n, k, got)
		}
	})
}

func TestDelayLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.IntRange(11, 100).Draw(t, "d"))
		h, _ := simulate.Run(dsl.Clients(dsl.Delay(d, dsl.Limit(50, many("a")))), drawOptions(t))
		for i, op := range invocations(h) {
			if op.Time != time.Duration(i)*d {
				t.Fatalf("operation %d of a delay of %v comes at %v", i, d, op.Time)
			}
		}
	})
}

func TestStaggerByFollowsItsMean(t *testing.T) {
	g := dsl.StaggerBy(func(at time.Duration) time.Duration {
		if at < 1_000_000 {
			return 1000
		}
		return 100
	}, many("a"))
	h := run(t, dsl.TimeLimit(2_000_000, g), simulate.Options{Clients: 50, Max: 20_000})
	slow, fast := 0, 0
	for _, op := range invocations(h) {
		if op.Time < 1_000_000 {
			slow++
		} else {
			fast++
		}
	}
	if slow < 900 || slow > 1100 || fast < 9300 || fast > 10700 {
		t.Errorf("%d operations, then %d; want 1000 and 10000", slow, fast)
	}
}

func TestCycleTimesKeepsItsWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := time.Duration(rapid.IntRange(1, 200).Draw(t, "a"))
		b := time.Duration(rapid.IntRange(1, 200).Draw(t, "b"))
		d := time.Duration(rapid.IntRange(0, 300).Draw(t, "pace"))
		g := dsl.TimeLimit(3000, dsl.CycleTimes(dsl.Window{For: a, Gen: dsl.Stagger(d, many("a"))}, dsl.Window{For: b, Gen: many("b")}))
		h, _ := simulate.Run(g, drawOptions(t))
		for _, op := range invocations(h) {
			if in := op.Time%(a+b) < a; in != (op.F == "a") {
				t.Fatalf("%s at %d: windows of %d and %d", op.F, op.Time, a, b)
			}
		}
		if len(h) == 0 {
			t.Fatal("nothing happened")
		}
	})
}

func TestMixIsWeighted(t *testing.T) {
	g := dsl.MixWeighted(dsl.Weighted{Weight: 7, Gen: many("a")}, dsl.Weighted{Weight: 2, Gen: many("b")},
		dsl.Weighted{Weight: 1, Gen: many("c")}, dsl.Weighted{Weight: 5, Gen: new(dsl.Promise)}, dsl.Weighted{Weight: 0, Gen: many("d")})
	h := run(t, dsl.Limit(10_000, g), simulate.Options{Max: 20_000})
	for f, want := range map[string]int{"a": 7000, "b": 2000, "c": 1000, "d": 0} {
		if n := len(ofF(h, f)); n < want-200 || n > want+200 {
			t.Errorf("%d operations are %s, want about %d", n, f, want)
		}
	}
}

func TestEndEarlyLaw(t *testing.T) {
	total := 0
	for seed := range uint64(400) {
		n := len(invocations(run(t, dsl.EndEarly(5, 0.25, many("a")), simulate.Options{Seed: seed})))
		if n == 0 || n%5 != 0 {
			t.Fatalf("it ended after %d operations", n)
		}
		total += n
	}
	if mean := total / 400; mean < 17 || mean > 23 {
		t.Errorf("the mean length is %d, want 20", mean)
	}
}

// Keys stay in their groups, groups are made of neighbours and of the right
// size, every key is used, and only by one group.
func TestIndependentConcurrentLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		n, keys := rapid.IntRange(1, 10).Draw(t, "n"), rapid.IntRange(0, 20).Draw(t, "keys")
		per := rapid.IntRange(1, 6).Draw(t, "per key")
		h, err := simulate.Run(dsl.IndependentConcurrent(n, dsl.FirstKeys(keys, dsl.IntKeys()),
			func(key histories.Value) dsl.Generator { return dsl.Limit(per, many("a")) }), o)
		if err != nil {
			t.Fatal(err)
		}
		groups := max(o.Clients/n, 1)
		groupOf := map[int]int{}
		for th, g := 0, 0; g < groups; g++ {
			size := o.Clients / groups
			if g < o.Clients%groups {
				size++
			}
			if size < n && groups > 1 {
				t.Fatalf("a group of %d is smaller than %d", size, n)
			}
			for range size {
				groupOf[th] = g
				th++
			}
		}
		owner, count := map[int64]int{}, map[int64]int{}
		for _, op := range invocations(h) {
			k, _, ok := op.Value.Tuple()
			key, _ := k.Int()
			if !ok {
				t.Fatalf("%v is not a tuple", op.Value)
			}
			g := groupOf[int(op.Process)%o.Clients]
			if was, seen := owner[key]; seen && was != g {
				t.Fatalf("key %d is used by groups %d and %d", key, was, g)
			}
			owner[key] = g
			count[key]++
		}
		if len(count) != keys {
			t.Fatalf("%d keys are used, want %d", len(count), keys)
		}
		for key, c := range count {
			if c != per {
				t.Fatalf("key %d is used %d times, want %d", key, c, per)
			}
		}
	})
}

// A generator of a key hears of its own key alone, without the tuple.
func TestIndependentUpdates(t *testing.T) {
	for name, g := range map[string]func(dsl.Keys, func(histories.Value) dsl.Generator) dsl.Generator{
		"sequential": dsl.IndependentSequential,
		"concurrent": func(k dsl.Keys, f func(histories.Value) dsl.Generator) dsl.Generator {
			return dsl.IndependentConcurrent(1, k, f)
		},
	} {
		heard := map[int64]int{}
		run(t, dsl.Clients(g(dsl.FirstKeys(4, dsl.IntKeys()), func(key histories.Value) dsl.Generator {
			k, _ := key.Int()
			return dsl.Watch(func(ev *histories.Op) {
				if v, ok := ev.Value.Int(); !ok || v != k*k {
					t.Errorf("%s: key %d hears of %v", name, k, ev)
				}
				heard[k]++
			}, dsl.ConcurrencyLimit(1, dsl.Limit(3, dsl.Repeat(dsl.Invocation("a", histories.Int(k*k))))))
		})), simulate.Options{Clients: 1})
		for k := range int64(4) {
			if heard[k] < 5 { // of its last operation, it may be gone when that completes
				t.Errorf("%s: key %d heard of %d events", name, k, heard[k])
			}
		}
	}
}

func TestNestedReserveLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		outer := rapid.IntRange(2, o.Clients-1).Draw(t, "outer")
		inner := rapid.IntRange(1, outer-1).Draw(t, "inner")
		lim := func(f string) dsl.Generator { return dsl.Limit(30, many(f)) }
		h, _ := simulate.Run(dsl.Clients(dsl.Reserve([]dsl.Range{{Threads: outer, Gen: dsl.Reserve(
			[]dsl.Range{{Threads: inner, Gen: lim("a")}}, lim("b"))}}, lim("c"))), o)
		for _, op := range h {
			want := "c"
			if th := int(op.Process) % o.Clients; th < inner {
				want = "a"
			} else if th < outer {
				want = "b"
			}
			if op.F != want {
				t.Fatalf("%s runs where %s should", op.F, want)
			}
		}
	})
}

func TestEachProcessBeginsAgainAfterACrash(t *testing.T) {
	crashes := 0
	h := run(t, dsl.Clients(dsl.EachProcess(dsl.Seq(one("a"), one("b")))), simulate.Options{Clients: 1,
		Complete: func(inv histories.Op) histories.Op {
			if inv.F == "b" && crashes < 2 {
				crashes++
				return simulate.Crashing(inv)
			}
			return simulate.Perfect(inv)
		}})
	if got := fs(h); got != "a b a b a b " {
		t.Errorf("got %q", got)
	}
}

// What Prepare is given is called once for each number, however often it is
// asked, and never ahead of need.
func TestPrepareCallsOnce(t *testing.T) {
	var calls atomic.Int64
	g := dsl.Prepare(func(i int) dsl.Generator {
		if n := calls.Add(1); int(n) != i+1 {
			t.Errorf("call %d is for number %d", n, i)
		}
		if i == 5 {
			return nil
		}
		return dsl.Limit(2, many(fmt.Sprint("op", i)))
	})
	// Without virtual time: what is prepared is waited for by asking again.
	th := dsl.NewThreads(2, 1)
	var got []string
	for g != nil {
		o := g.Op(th.Context(0))
		again := g.Op(th.Context(0))
		switch o.State {
		case dsl.Done:
			if n := calls.Load(); n != 6 {
				t.Errorf("%d calls", n)
			}
			if want := "op0 op0 op1 op1 op2 op2 op3 op3 op4 op4"; strings.Join(got, " ") != want {
				t.Errorf("got %v", got)
			}
			return
		case dsl.Ready:
			got = append(got, again.Op.F)
			g = again.Next
		}
	}
}

func TestPreparePassesPanicsOn(t *testing.T) {
	_, err := simulate.Run(dsl.Prepare(func(int) dsl.Generator { panic("no database") }), simulate.Options{})
	if !errors.Is(err, simulate.ErrInvalid) || !strings.Contains(err.Error(), "no database") {
		t.Errorf("%v", err)
	}
}

type wrong func(dsl.Context) dsl.Offer

func (w wrong) Op(ctx dsl.Context) dsl.Offer                    { return w(ctx) }
func (w wrong) Update(dsl.Context, *histories.Op) dsl.Generator { return w }

func TestValidateNamesTheGeneratorThatIsBroken(t *testing.T) {
	for want, g := range map[string]wrong{
		"not in view": func(ctx dsl.Context) dsl.Offer {
			return dsl.Offer{State: dsl.Ready, Op: dsl.Op{F: "x", Process: 0, Time: ctx.Time}}
		},
		"which is past": func(ctx dsl.Context) dsl.Offer {
			return dsl.Offer{State: dsl.Ready, Op: dsl.Op{F: "x", Process: 1, Time: -1}}
		},
		"no thread runs": func(ctx dsl.Context) dsl.Offer {
			return dsl.Offer{State: dsl.Ready, Op: dsl.Op{F: "x", Process: -7}}
		},
		"oops": func(ctx dsl.Context) dsl.Offer { panic("oops") },
	} {
		func() {
			defer func() {
				var b *dsl.BrokenError
				err, _ := recover().(error)
				if !errors.As(err, &b) || b.Name != "inner" || !strings.Contains(err.Error(), want) {
					t.Errorf("want %q, got %v", want, err)
				}
			}()
			odd := func(ctx dsl.Context, t dsl.Thread) bool { return t == 1 }
			dsl.Validate("outer", dsl.OnThreads(odd, dsl.Validate("inner", g))).Op(dsl.NewThreads(2, 1).Context(0))
		}()
	}
}

// An early defect elsewhere: what was in flight when the generator ended never
// reached it.
func TestWhatIsInFlightAtTheEndReachesTheGenerator(t *testing.T) {
	var completed int
	run(t, dsl.Watch(func(ev *histories.Op) {
		if !ev.IsInvocation() {
			completed++
		}
	}, dsl.Limit(2, many("a"))), simulate.Options{})
	if completed != 2 {
		t.Errorf("%d completions reached the generator, want 2", completed)
	}
}

func TestKeyTrackerReadsAllKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, size := rapid.IntRange(0, 30).Draw(t, "keys"), rapid.Int64Range(0, 9).Draw(t, "size")
		var keys dsl.KeyTracker
		h, _ := simulate.Run(dsl.Phases(
			keys.Watch(dsl.IndependentConcurrent(2, dsl.FirstKeys(n, dsl.IntKeys()), func(histories.Value) dsl.Generator { return one("a") })),
			keys.Batches(size, func(from, to int64) dsl.Generator { return dsl.Invocation("read", histories.Ints(from, to)) }),
		), drawOptions(t))
		next := int64(0)
		for _, op := range ofF(h, "read") {
			r, _ := op.Value.Ints()
			if r[0] != next || r[1] <= r[0] || r[1]-r[0] > max(size, 1) {
				t.Fatalf("a batch is %v, the one before ended at %d", r, next)
			}
			next = r[1]
		}
		if next != int64(n) {
			t.Fatalf("%d keys were read, want %d", next, n)
		}
	})
}

// The answer of a context to every question is that of a simple model.
func TestContextModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 3, 63, 64, 65, 130, 200, 5000}).Draw(t, "clients")
		th := dsl.NewThreads(n, 1, "nemesis", "admin")
		in := map[dsl.Thread]bool{}
		lo, hi := rapid.IntRange(0, n).Draw(t, "lo"), rapid.IntRange(0, n+2).Draw(t, "hi")
		step := rapid.IntRange(1, 3).Draw(t, "step")
		for i := lo; i < hi; i += step {
			in[dsl.Thread(i)] = true
		}
		busy := map[dsl.Thread]bool{}
		probe := wrong(func(ctx dsl.Context) dsl.Offer {
			free := 0
			for x := range in {
				if !busy[x] {
					free++
				}
			}
			some, ok := ctx.SomeFree()
			if ctx.Len() != len(in) || ctx.FreeLen() != free || ctx.AllFree() != (free == len(in)) || ok != (free > 0) || ok && (!in[some] || busy[some]) {
				t.Fatalf("%d of %d are free, and the context says Len %d, FreeLen %d, AllFree %v, SomeFree %v %v",
					free, len(in), ctx.Len(), ctx.FreeLen(), ctx.AllFree(), some, ok)
			}
			return dsl.Offer{State: dsl.Pending}
		})
		g := dsl.OnThreads(func(_ dsl.Context, x dsl.Thread) bool { return in[x] }, probe)
		for range 60 {
			x := dsl.Thread(rapid.IntRange(0, n+1).Draw(t, "thread"))
			if busy[x] = !busy[x]; busy[x] {
				th.Busy(x)
			} else {
				th.Free(x)
			}
			g.Op(th.Context(0))
		}
	})
}

// What a test wrote down may be used by several tests at a time: running it
// leaves no trace in it.
func TestGeneratorsAreSharedByTests(t *testing.T) {
	g := dsl.TimeLimit(5000, dsl.Any(
		dsl.Clients(dsl.Cycle(dsl.Reserve([]dsl.Range{{Threads: 2, Gen: dsl.EachThread(dsl.Limit(3, random("a")))}},
			dsl.Mix(dsl.IndependentConcurrent(2, dsl.FirstKeys(5, dsl.IntKeys()), func(histories.Value) dsl.Generator { return dsl.Limit(4, random("b")) }),
				dsl.UntilOK(random("c")), dsl.Filter(func(o dsl.Op) bool { v, _ := o.Value.Int(); return v%2 == 0 }, random("d")))))),
		dsl.Nemesis(dsl.Stagger(100, dsl.FlipFlop(many("start"), many("stop"))))))
	results := make(chan string)
	for range 8 {
		go func() {
			h, err := simulate.Run(g, simulate.Options{Clients: 6, Seed: 3, Complete: simulate.Imperfect(6)})
			results <- fmt.Sprint(err) + simulate.Format(h)
		}()
	}
	first := <-results
	for range 7 {
		if r := <-results; r != first {
			t.Error("the same generator gives different histories")
		}
	}
}

// Operations that come late, here because the only thread is often busy, do not
// lower the rate, as long as there is time to catch up.
func TestStaggerMakesUpForSmallDelays(t *testing.T) {
	h := run(t, dsl.Clients(dsl.Limit(4000, dsl.Stagger(1000, many("a")))),
		simulate.Options{Clients: 1, Complete: simulate.After(700, histories.OK)})
	ops := invocations(h)
	if mean := float64(ops[len(ops)-1].Time-ops[0].Time) / float64(len(ops)-1); mean < 950 || mean > 1050 {
		t.Errorf("operations come every %.0f ns, want 1000", mean)
	}
}

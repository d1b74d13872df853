package dsl_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/dsl/simulate"
	"github.com/jepsentest/go/histories"
	"pgregory.net/rapid"
)

func op(f string) dsl.Op          { return dsl.Op{F: f} }
func one(f string) dsl.Generator  { return dsl.Once(op(f)) }
func many(f string) dsl.Generator { return dsl.Repeat(one(f)) }
func ofF(h []histories.Op, f string) (out []histories.Op) {
	for _, o := range h {
		if o.F == f && o.IsInvocation() {
			out = append(out, o)
		}
	}
	return out
}

func run(t testing.TB, g dsl.Generator, o simulate.Options) []histories.Op {
	t.Helper()
	h, err := simulate.Run(g, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, simulate.Format(h))
	}
	return h
}

func invocations(h []histories.Op) (out []histories.Op) {
	for _, o := range h {
		if o.IsInvocation() {
			out = append(out, o)
		}
	}
	return out
}

func fs(h []histories.Op) string {
	out := ""
	for _, o := range invocations(h) {
		out += o.F + " "
	}
	return out
}

// Each row runs a generator on two clients and a nemesis, completing operations
// after 10 ns, and gives the f's that were invoked.
func TestSequencesOfOperations(t *testing.T) {
	counter := func(n int) dsl.Generator { // a, then b, … n of them
		var gs []dsl.Generator
		for i := range n {
			gs = append(gs, one(string(rune('a'+i))))
		}
		return dsl.Seq(gs...)
	}
	for _, c := range []struct {
		name string
		g    dsl.Generator
		want string
	}{
		{"nil", nil, ""},
		{"once", one("a"), "a "},
		{"seq", dsl.Seq(one("a"), nil, dsl.Seq(), one("b")), "a b "},
		{"limit", dsl.Limit(3, many("a")), "a a a "},
		{"limit 0", dsl.Limit(0, many("a")), ""},
		{"repeat keeps the state", dsl.Limit(3, dsl.Repeat(counter(2))), "a a a "},
		{"cycle", dsl.Limit(5, dsl.Cycle(counter(2))), "a b a b a "},
		{"cycle of nothing", dsl.Cycle(dsl.Seq()), ""},
		{"cycle of a spent generator", dsl.Cycle(dsl.Filter(func(dsl.Op) bool { return false }, one("a"))), ""},
		{"func", dsl.Limit(4, dsl.Func(func(dsl.Context) dsl.Generator { return counter(2) })), "a b a b "},
		{"func ends", dsl.Func(func(dsl.Context) dsl.Generator { return nil }), ""},
		{"flip-flop", dsl.FlipFlop(counter(3), dsl.Repeat(one("x"))), "a x b x c x "},
		{"map", dsl.Map(func(_ dsl.Context, o dsl.Op) dsl.Op { o.F += "!"; return o }, counter(2)), "a! b! "},
		{"rename", dsl.RenameF(map[string]string{"a": "x"}, counter(2)), "x b "},
		{"filter", dsl.Filter(func(o dsl.Op) bool { return o.F != "b" }, counter(3)), "a c "},
		{"nemesis", dsl.Nemesis(counter(2)), "a b "},
		{"named, absent", dsl.Named("admin", counter(2)), ""},
		{"each thread", dsl.Clients(dsl.EachThread(one("a"))), "a a "},
		{"each thread of all", dsl.EachThread(one("a")), "a a a "},
		{"until ok", dsl.UntilOK(dsl.Nemesis(dsl.Limit(2, many("a")))), "a a "},
		{"phases", dsl.Phases(dsl.Limit(3, many("a")), dsl.Limit(2, many("b"))), "a a a b b "},
		{"sleeps and logs are not recorded", dsl.Seq(dsl.Log("hello"), dsl.Sleep(time.Second), one("a")), "a "},
		{"lazy", dsl.Lazy(func() dsl.Generator { return counter(2) }), "a b "},
		{"shortest any", dsl.ShortestAny(counter(2), dsl.Filter(func(dsl.Op) bool { return true }, nil)), ""},
		{"process limit", dsl.ProcessLimit(3, dsl.Limit(4, many("a"))), "a a a a "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fs(run(t, c.g, simulate.Options{})); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestProcessLimitEndsWhenClientsHaveCrashed(t *testing.T) {
	h := run(t, dsl.Clients(dsl.ProcessLimit(5, many("a"))), simulate.Options{Complete: simulate.Crashing})
	procs := map[histories.Process]bool{}
	for _, o := range h {
		procs[o.Process] = true
	}
	if len(procs) != 4 && len(procs) != 5 {
		t.Errorf("%d processes ran, want 5 at most, and nearly so", len(procs))
	}
}

func TestUntilOKTriesAgain(t *testing.T) {
	g := dsl.Clients(dsl.UntilOK(dsl.ConcurrencyLimit(1, many("a"))))
	h := run(t, g, simulate.Options{Clients: 1, Complete: simulate.Imperfect(1)})
	if got := fs(h); got != "a a a " { // fail, info, ok
		t.Errorf("got %q", got)
	}
}

func TestGoldenSimulation(t *testing.T) {
	g := dsl.Phases(
		dsl.TimeLimit(50, dsl.Any(
			dsl.Clients(dsl.Delay(10, dsl.FlipFlop(many("read"), many("write")))),
			dsl.Nemesis(dsl.Seq(dsl.Sleep(25), one("start"), dsl.Sleep(15), one("stop"))),
		)),
		dsl.Clients(dsl.EachThread(one("final"))),
	)
	got := simulate.Format(run(t, g, simulate.Options{}))
	const want = `0 0 invoke read nil
10 1 invoke write nil
10 0 ok read nil
20 0 invoke read nil
20 1 ok write nil
25 nemesis begin start nil
30 1 invoke write nil
30 0 ok read nil
35 nemesis end start nil
40 0 invoke read nil
40 1 ok write nil
50 0 ok read nil
50 0 invoke final nil
50 1 invoke final nil
60 0 ok final nil
60 1 ok final nil
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A time limit ends by the clock, also when the generator inside has nothing
// more to offer but is not done.
func TestTimeLimitEndsWhilePending(t *testing.T) {
	g := dsl.Seq(
		dsl.TimeLimit(time.Second, dsl.Seq(one("a"), new(dsl.Promise))),
		one("b"))
	h := run(t, g, simulate.Options{})
	b := ofF(h, "b")
	if len(b) != 1 || b[0].Time != time.Second {
		t.Errorf("got\n%s", simulate.Format(h))
	}
}

func TestStuckGeneratorsAreReported(t *testing.T) {
	if _, err := simulate.Run(dsl.Seq(one("a"), new(dsl.Promise)), simulate.Options{}); err == nil {
		t.Error("no error")
	}
}

func TestPromise(t *testing.T) {
	p := new(dsl.Promise)
	p.Deliver(one("a"))
	p.Deliver(one("b"))
	if got := fs(run(t, p, simulate.Options{})); got != "a " {
		t.Errorf("got %q", got)
	}
}

func TestGeneratorsWithoutProgressAreReported(t *testing.T) {
	nothing := dsl.Filter(func(dsl.Op) bool { return false }, one("a"))
	for name, g := range map[string]dsl.Generator{
		"func":   dsl.Func(func(dsl.Context) dsl.Generator { return nothing }),
		"filter": dsl.Filter(func(dsl.Op) bool { return false }, many("a")),
		"independent": dsl.IndependentSequential(dsl.IntKeys(), func(histories.Value) dsl.Generator {
			return nil
		}),
		"concurrent keys": dsl.IndependentConcurrent(1, dsl.IntKeys(), func(histories.Value) dsl.Generator {
			return nothing
		}),
		"prepare": dsl.Prepare(func(int) dsl.Generator { return nothing }),
	} {
		if _, err := simulate.Run(g, simulate.Options{}); !errors.Is(err, simulate.ErrInvalid) || !strings.Contains(err.Error(), "never") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A mix is not held up by a member that has nothing to offer just now.
func TestMixPassesOverPendingMembers(t *testing.T) {
	g := dsl.Limit(20, dsl.Mix(new(dsl.Promise), many("a")))
	if n := len(ofF(run(t, g, simulate.Options{}), "a")); n != 20 {
		t.Errorf("%d operations, want 20", n)
	}
}

func TestReserveInsideARestriction(t *testing.T) {
	odd := func(ctx dsl.Context, th dsl.Thread) bool { return ctx.IsClient(th) && th%2 == 1 }
	g := dsl.OnThreads(odd, dsl.Reserve(
		[]dsl.Range{{Threads: 2, Gen: dsl.Limit(20, many("a"))}, {Threads: 1, Gen: dsl.Limit(20, many("b"))}},
		dsl.Limit(20, many("c"))))
	want := map[string]map[histories.Process]bool{"a": {1: true, 3: true}, "b": {5: true}, "c": {7: true, 9: true}}
	for _, o := range invocations(run(t, g, simulate.Options{Clients: 10})) {
		if !want[o.F][o.Process] {
			t.Errorf("%s ran on process %v", o.F, o.Process)
		}
	}
}

func TestSeveralNamedThreads(t *testing.T) {
	g := dsl.Any(dsl.Named("nemesis", one("kill")), dsl.Named("clock", one("jump")), dsl.Clients(one("read")))
	h := run(t, g, simulate.Options{Named: []string{"nemesis", "clock"}})
	for _, o := range h {
		if want := map[string]histories.Process{"kill": -1, "jump": -2}[o.F]; o.F != "read" && o.Process != want {
			t.Errorf("%s ran on process %v, want %v", o.F, o.Process, want)
		}
	}
	if len(h) != 6 {
		t.Errorf("%d entries, want 6", len(h))
	}
}

func TestStaggerKeepsItsMeanRate(t *testing.T) {
	h := run(t, dsl.Clients(dsl.Limit(4000, dsl.Stagger(1000, many("a")))), simulate.Options{Clients: 5})
	ops := invocations(h)
	mean := float64(ops[len(ops)-1].Time-ops[0].Time) / float64(len(ops)-1)
	if mean < 960 || mean > 1040 {
		t.Errorf("operations come every %.0f ns, want 1000", mean)
	}
}

func TestAnyIsFair(t *testing.T) {
	h := run(t, dsl.Limit(6000, dsl.Any(many("a"), many("b"), many("c"))), simulate.Options{Max: 7000})
	for _, f := range []string{"a", "b", "c"} {
		if n := len(ofF(h, f)); n < 1800 || n > 2200 {
			t.Errorf("%d of 6000 operations are %s", n, f)
		}
	}
}

// drawGen draws a random finite generator.
func drawGen(t *rapid.T, depth int) dsl.Generator {
	if depth == 0 {
		f := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "f")
		return dsl.Limit(rapid.IntRange(0, 5).Draw(t, "n"), many(f))
	}
	sub := func() dsl.Generator { return drawGen(t, depth-1) }
	n := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
	switch n("combinator", 0, 27) {
	case 0:
		return dsl.Seq(sub(), sub())
	case 1:
		return dsl.Any(sub(), sub(), sub())
	case 2:
		return dsl.Mix(sub(), sub())
	case 3:
		return dsl.Limit(rapid.IntRange(0, 8).Draw(t, "limit"), sub())
	case 4:
		return dsl.Stagger(time.Duration(rapid.IntRange(1, 50).Draw(t, "d")), sub())
	case 5:
		return dsl.Delay(time.Duration(rapid.IntRange(1, 50).Draw(t, "d")), sub())
	case 6:
		return dsl.TimeLimit(time.Duration(rapid.IntRange(1, 100).Draw(t, "d")), sub())
	case 7:
		return dsl.Clients(sub())
	case 8:
		return dsl.Clients(dsl.EachThread(sub()))
	case 9:
		return dsl.Phases(sub(), sub())
	case 10:
		return dsl.Reserve([]dsl.Range{{Threads: 1, Gen: sub()}}, sub())
	case 11:
		return dsl.UntilOK(sub())
	case 12:
		return dsl.ConcurrencyLimit(rapid.IntRange(1, 3).Draw(t, "limit"), sub())
	case 13:
		return dsl.Limit(20, dsl.Cycle(sub()))
	case 14:
		return dsl.MixWeighted(dsl.Weighted{Weight: n("weight", 0, 3), Gen: sub()}, dsl.Weighted{Weight: 2, Gen: sub()})
	case 15:
		return dsl.CycleTimes(dsl.Window{For: 20, Gen: sub()}, dsl.Window{For: time.Duration(n("d", 0, 30)), Gen: sub()})
	case 16:
		return dsl.IndependentConcurrent(n("group", 1, 4), dsl.FirstKeys(n("keys", 0, 5), dsl.IntKeys()),
			func(histories.Value) dsl.Generator { return dsl.Limit(5, random("k")) })
	case 17:
		g := sub()
		return dsl.IndependentSequential(dsl.FirstKeys(n("keys", 0, 3), dsl.IntKeys()), func(histories.Value) dsl.Generator { return g })
	case 18:
		return dsl.Limit(20, dsl.Clients(dsl.EachProcess(sub())))
	case 19:
		return dsl.CycleN(n("n", 0, 3), sub())
	case 20:
		return dsl.RepeatN(n("n", 0, 6), sub())
	case 21:
		return dsl.ShortestAny(sub(), sub())
	case 22:
		return dsl.EndEarly(n("every", 1, 3), 0.3, sub())
	case 23:
		return dsl.Validate("inner", dsl.Watch(func(*histories.Op) {}, sub()))
	case 24:
		return dsl.Filter(func(o dsl.Op) bool { return o.F != "b" }, dsl.Seq(drawGen(t, 0), drawGen(t, 0)))
	case 25:
		return dsl.ProcessLimit(n("n", 5, 15), sub())
	case 26:
		g := sub()
		return dsl.Limit(10, dsl.Func(func(dsl.Context) dsl.Generator { return dsl.Seq(g, one("f")) }))
	default:
		return dsl.FlipFlop(sub(), sub())
	}
}

func drawOptions(t *rapid.T) simulate.Options {
	n := rapid.IntRange(5, 8).Draw(t, "clients") // enough for Reserves three deep
	return simulate.Options{Clients: n, Seed: rapid.Uint64().Draw(t, "seed"), Complete: simulate.Imperfect(n)}
}

// eager asks its generator several times before it uses an answer, and asks a
// spent one again: neither may change anything.
type eager struct {
	t *rapid.T
	g dsl.Generator
}

func (e eager) Op(ctx dsl.Context) dsl.Offer {
	describe := func(o dsl.Offer) string { return fmt.Sprint(o.State, o.Op.F, o.Op.Process, o.Op.Time, o.Wake) }
	clone := ctx // asking draws numbers: each question gets the same ones
	first := e.g.Op(ctx.Again())
	for range 2 {
		if again := e.g.Op(clone.Again()); describe(first) != describe(again) {
			e.t.Fatalf("asked twice, it answered %s and %s", describe(first), describe(again))
		}
	}
	if first.State == dsl.Ready && first.Next != nil {
		first.Next = eager{e.t, first.Next}
	}
	return first
}

func (e eager) Update(ctx dsl.Context, ev *histories.Op) dsl.Generator {
	if g := e.g.Update(ctx, ev); g != nil {
		return eager{e.t, g}
	}
	return nil
}

func TestAskingHasNoEffects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGen(t, 3)
		if g == nil {
			return
		}
		o := drawOptions(t)
		plain, err1 := simulate.Run(g, o)
		o.Complete = simulate.Imperfect(o.Clients)
		asked, err2 := simulate.Run(eager{t, g}, o)
		if simulate.Format(plain) != simulate.Format(asked) || (err1 == nil) != (err2 == nil) {
			t.Fatalf("asked once (%v):\n%sasked three times (%v):\n%s", err1, simulate.Format(plain), err2, simulate.Format(asked))
		}
	})
}

func TestSameSeedSameOperations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, o := drawGen(t, 3), drawOptions(t)
		a, _ := simulate.Run(g, o)
		o.Complete = simulate.Imperfect(o.Clients)
		b, _ := simulate.Run(g, o)
		if simulate.Format(a) != simulate.Format(b) {
			t.Fatalf("first:\n%ssecond:\n%s", simulate.Format(a), simulate.Format(b))
		}
	})
}

// Whatever is generated is a well-formed history, and no generator made of
// finite ones gets stuck.
func TestSimulationsAreWellFormed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, err := simulate.Run(drawGen(t, 3), drawOptions(t))
		if err != nil {
			t.Fatalf("%v\n%s", err, simulate.Format(h))
		}
		if len(h) == 0 {
			return
		}
		if _, err := histories.New(h...); err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(h); i++ {
			if h[i].Time < h[i-1].Time {
				t.Fatalf("time runs backwards:\n%s", simulate.Format(h))
			}
		}
	})
}

func TestLimitLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 10).Draw(t, "n")
		h, _ := simulate.Run(dsl.Limit(n, drawGen(t, 3)), drawOptions(t))
		if got := len(invocations(h)); got > n {
			t.Fatalf("%d operations came through a limit of %d", got, n)
		}
	})
}

func TestPhasesNeverOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mark := func(f string, g dsl.Generator) dsl.Generator {
			return dsl.Map(func(_ dsl.Context, o dsl.Op) dsl.Op { o.F = f; return o }, g)
		}
		h, _ := simulate.Run(dsl.Phases(mark("one", drawGen(t, 2)), mark("two", drawGen(t, 2))), drawOptions(t))
		open, second := 0, false
		for _, o := range h {
			if o.F == "two" {
				second = true
				if open > 0 {
					t.Fatalf("phases overlap:\n%s", simulate.Format(h))
				}
				continue
			}
			if second {
				t.Fatalf("the first phase goes on after the second began:\n%s", simulate.Format(h))
			}
			if o.IsInvocation() {
				open++
			} else {
				open--
			}
		}
	})
}

func TestTimeLimitLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.IntRange(1, 100).Draw(t, "d"))
		h, _ := simulate.Run(dsl.TimeLimit(d, drawGen(t, 3)), drawOptions(t))
		ops := invocations(h)
		if len(ops) > 0 && ops[len(ops)-1].Time >= ops[0].Time+d {
			t.Fatalf("an operation came at the end of a time limit of %d ns:\n%s", d, simulate.Format(h))
		}
	})
}

func TestReserveLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		n := rapid.IntRange(1, o.Clients-1).Draw(t, "reserved")
		h, _ := simulate.Run(dsl.Clients(dsl.Reserve([]dsl.Range{{Threads: n, Gen: dsl.Limit(30, many("a"))}},
			dsl.Limit(30, many("b")))), o)
		for _, op := range h {
			if thread := int(op.Process) % o.Clients; (op.F == "a") != (thread < n) {
				t.Fatalf("%s ran on thread %d of %d reserved", op.F, thread, n)
			}
		}
	})
}

func ExamplePhases() {
	g := dsl.Phases(
		dsl.Clients(dsl.Limit(2, dsl.Repeat(dsl.Invocation("write", histories.Int(1))))),
		dsl.Clients(dsl.Once(dsl.Op{F: "read"})),
	)
	h, err := simulate.Run(g, simulate.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Print(simulate.Format(h))
	// Output:
	// 0 0 invoke write 1
	// 0 1 invoke write 1
	// 10 0 ok write 1
	// 10 1 ok write 1
	// 10 0 invoke read nil
	// 20 0 ok read nil
}

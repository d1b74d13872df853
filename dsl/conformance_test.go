package dsl_test

import (
	"testing"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/dsl/dsltest"
	"github.com/jepsentest/go/histories"
	"pgregory.net/rapid"
)

// random offers operations with random values: it shows when Rand is not the
// same for the same question.
func random(f string) dsl.Generator {
	return dsl.Ops(func(ctx dsl.Context) dsl.Op {
		return dsl.Op{F: f, Value: histories.Int(ctx.Rand().Int64N(1000))}
	})
}

// combinators has every combinator of the package around something that has a
// state, is random, and ends.
func combinators() map[string]func() dsl.Generator {
	limited := func(n int, f string) dsl.Generator { return dsl.Limit(n, random(f)) }
	counted := func(n int, f string) dsl.Generator { // with the values 0 … n−1
		var gs []dsl.Generator
		for i := range n {
			gs = append(gs, dsl.Invocation(f, histories.Int(int64(i))))
		}
		return dsl.Seq(gs...)
	}
	third := func(o dsl.Op) bool { v, _ := o.Value.Int(); return v%3 == 1 }
	paced := func(f string) dsl.Generator { return dsl.Stagger(7, limited(20, f)) }
	gs := map[string]dsl.Generator{
		"once":             one("a"),
		"sleep":            dsl.Limit(3, dsl.Repeat(dsl.Sleep(20))),
		"log":              dsl.Log("hello"),
		"ops":              random("a"),
		"seq":              dsl.Seq(limited(3, "a"), dsl.Mix(limited(3, "b"), paced("c")), limited(5, "d")),
		"func":             dsl.Limit(50, dsl.Func(func(ctx dsl.Context) dsl.Generator { return limited(1+ctx.Rand().IntN(3), "a") })),
		"repeat":           dsl.Limit(20, dsl.Repeat(dsl.Mix(one("a"), one("b"), paced("c")))),
		"repeat n":         dsl.RepeatN(7, dsl.Seq(one("a"), one("b"))),
		"cycle":            dsl.Limit(40, dsl.Cycle(dsl.Seq(limited(3, "a"), paced("b")))),
		"cycle n":          dsl.CycleN(3, dsl.Any(limited(3, "a"), limited(2, "b"))),
		"flip-flop":        dsl.FlipFlop(limited(9, "a"), paced("b")),
		"any":              dsl.Any(limited(9, "a"), paced("b"), dsl.Clients(limited(4, "c"))),
		"any of many":      dsl.Any(append(make([]dsl.Generator, 300), limited(9, "a"), paced("b"))...),
		"shortest any":     dsl.ShortestAny(limited(30, "a"), paced("b"), random("c")),
		"mix":              dsl.Mix(limited(9, "a"), paced("b"), one("c")),
		"mix weighted":     dsl.MixWeighted(dsl.Weighted{Weight: 5, Gen: limited(9, "a")}, dsl.Weighted{Weight: 1, Gen: paced("b")}),
		"limit":            limited(10, "a"),
		"process limit":    dsl.ProcessLimit(12, random("a")),
		"concurrency":      dsl.ConcurrencyLimit(2, limited(20, "a")),
		"time limit":       dsl.TimeLimit(200, dsl.Any(paced("a"), random("b"))),
		"time limit ahead": dsl.TimeLimit(100, dsl.Seq(one("a"), dsl.Map(func(_ dsl.Context, o dsl.Op) dsl.Op { o.Time += 500; return o }, one("b")))),
		"end early":        dsl.EndEarly(3, 0.2, random("a")),
		"stagger":          paced("a"),
		"stagger by":       dsl.StaggerBy(func(at time.Duration) time.Duration { return 1 + at/10 }, limited(30, "a")),
		"delay":            dsl.Delay(9, limited(30, "a")),
		"cycle times":      dsl.CycleTimes(dsl.Window{For: 30, Gen: dsl.Stagger(5, random("a"))}, dsl.Window{For: 20, Gen: dsl.Delay(3, random("b"))}, dsl.Window{For: 10, Gen: limited(8, "c")}),
		"synchronize":      dsl.Synchronize(limited(5, "a")),
		"phases":           dsl.Phases(limited(5, "a"), paced("b"), limited(3, "c")),
		"then":             dsl.Then(limited(5, "a"), limited(5, "b")),
		"until ok":         dsl.UntilOK(dsl.ConcurrencyLimit(2, random("a"))),
		"until ok, limit":  dsl.UntilOK(limited(2, "a")),
		"on threads":       dsl.OnThreads(func(_ dsl.Context, t dsl.Thread) bool { return t > 1 }, limited(9, "a")),
		"nemesis":          dsl.Nemesis(paced("a")),
		"each thread":      dsl.EachThread(dsl.Seq(limited(2, "a"), paced("b"))),
		"each process":     dsl.Limit(60, dsl.EachProcess(dsl.Clients(dsl.Seq(one("a"), one("b"))))),
		"each of each":     dsl.EachThread(dsl.Any(dsl.Clients(limited(3, "a")), dsl.Nemesis(paced("b")))),
		"reserve": dsl.Reserve([]dsl.Range{{Threads: 1, Gen: limited(9, "a")}, {Threads: 1, Gen: paced("b")}},
			dsl.Any(dsl.Clients(limited(5, "c")), dsl.Nemesis(limited(2, "d")))),
		"map":           dsl.Map(func(ctx dsl.Context, o dsl.Op) dsl.Op { o.Time += 3; o.F += "!"; return o }, paced("a")),
		"rename":        dsl.RenameF(map[string]string{"a": "x"}, dsl.Mix(limited(4, "a"), limited(4, "b"))),
		"filter":        dsl.Filter(third, dsl.Mix(dsl.Stagger(7, counted(50, "a")), counted(40, "b"))),
		"filter random": dsl.Limit(30, dsl.Filter(third, dsl.Mix(random("a"), random("b")))),
		"filter all":    dsl.Filter(func(dsl.Op) bool { return false }, dsl.Mix(paced("a"), limited(40, "b"))),
		"cycled filter": dsl.Limit(50, dsl.Cycle(dsl.Filter(third, dsl.EachThread(counted(10, "a"))))),
		"on update": dsl.Limit(50, dsl.OnUpdate(func(g dsl.Generator, ctx dsl.Context, ev *histories.Op) dsl.Generator {
			if ev.Type == histories.Info {
				return dsl.Seq(one("crash"), g.Update(ctx, ev))
			}
			return g.Update(ctx, ev)
		}, dsl.Stagger(7, random("a")))),
		"watch":    dsl.Watch(func(*histories.Op) {}, paced("a")),
		"trace":    dsl.Trace(func(string, ...any) {}, "a", paced("a")),
		"validate": dsl.Validate("a", paced("a")),
		"sequential keys": dsl.IndependentSequential(dsl.FirstKeys(5, dsl.IntKeys()), func(histories.Value) dsl.Generator {
			return dsl.Mix(limited(3, "a"), paced("b"))
		}),
		"concurrent keys": dsl.IndependentConcurrent(2, dsl.FirstKeys(9, dsl.IntKeys()), func(histories.Value) dsl.Generator {
			return dsl.Any(dsl.UntilOK(random("a")), limited(4, "b"))
		}),
		"filtered keys": dsl.Limit(40, dsl.Filter(func(o dsl.Op) bool { _, v, _ := o.Value.Tuple(); i, _ := v.Int(); return i%2 == 0 },
			dsl.IndependentConcurrent(2, dsl.IntKeys(), func(histories.Value) dsl.Generator { return paced("a") }))),
		"promise": new(dsl.Promise),
	}
	fs := map[string]func() dsl.Generator{
		"lazy": func() dsl.Generator { return dsl.Lazy(func() dsl.Generator { return paced("a") }) },
		"prepare": func() dsl.Generator {
			return dsl.Prepare(func(i int) dsl.Generator {
				if i == 4 {
					return nil
				}
				return dsl.Mix(limited(i, "a"), limited(3, "b"))
			})
		},
		"key tracker": func() dsl.Generator {
			keys := new(dsl.KeyTracker)
			return dsl.Phases(
				keys.Watch(dsl.IndependentConcurrent(2, dsl.FirstKeys(9, dsl.IntKeys()), func(histories.Value) dsl.Generator { return one("a") })),
				keys.Batches(4, func(from, to int64) dsl.Generator { return dsl.Invocation("read", histories.Ints(from, to)) }))
		},
	}
	for name, g := range gs {
		fs[name] = func() dsl.Generator { return g }
	}
	return fs
}

func TestCombinatorsKeepTheContract(t *testing.T) {
	for name, g := range combinators() {
		t.Run(name, func(t *testing.T) {
			dsltest.CheckFunc(t, dsltest.Options{}, g)
			dsltest.CheckFunc(t, dsltest.Options{Clients: 70, Named: []string{"nemesis", "admin"}, Runs: 6}, g)
			dsltest.CheckFunc(t, dsltest.Options{Clients: 3, Alone: true}, g)
		})
	}
}

// Combinators around combinators keep the contract too. This is where it would
// show that two of them hold on to the same memory.
func TestNestedCombinatorsKeepTheContract(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGen(t, 4)
		dsltest.CheckFunc(t, dsltest.Options{Clients: rapid.IntRange(8, 12).Draw(t, "clients"), Runs: 3}, func() dsl.Generator { return g })
	})
}

package dsl_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/histories"
)

// A step of a generator that runs (restricting, asking, updating with the
// invocation and with the completion) does not allocate. What is allocated
// seldom, for hundreds of operations at a time, rounds to nothing.
func TestStepsDoNotAllocate(t *testing.T) {
	a, b, c := many("a"), many("b"), many("c")
	ops := dsl.Ops(func(ctx dsl.Context) dsl.Op { return dsl.Op{F: "o", Value: histories.Int(ctx.Rand().Int64N(9))} })
	const forever = 1 << 40
	for name, g := range map[string]dsl.Generator{
		"clients":       dsl.Clients(a),
		"limit":         dsl.Limit(forever, a),
		"process limit": dsl.ProcessLimit(forever, a),
		"concurrency":   dsl.ConcurrencyLimit(3, a),
		"time limit":    dsl.TimeLimit(1<<62, a),
		"stagger":       dsl.Stagger(10, a),
		"delay":         dsl.Delay(10, a),
		"end early":     dsl.EndEarly(10, 0, a),
		"map":           dsl.Map(func(_ dsl.Context, o dsl.Op) dsl.Op { return o }, a),
		"filter":        dsl.Filter(func(dsl.Op) bool { return true }, a),
		"watch":         dsl.Watch(func(*histories.Op) {}, a),
		"validate":      dsl.Validate("a", a),
		"seq":           dsl.Seq(dsl.Limit(forever, a), b),
		"cycle":         dsl.Cycle(dsl.Limit(forever, a)),
		"repeat":        dsl.RepeatN(forever, dsl.Once(op("a"))),
		"flip-flop":     dsl.FlipFlop(a, b),
		"func":          dsl.Func(func(dsl.Context) dsl.Generator { return a }),
		"any":           dsl.Any(a, dsl.Stagger(10, b), c),
		"mix":           dsl.Mix(a, b, ops),
		"cycle times":   dsl.CycleTimes(dsl.Window{For: 1000, Gen: dsl.Stagger(10, a)}, dsl.Window{For: 1000, Gen: dsl.Stagger(10, b)}),
		"until ok":      dsl.Any(a, dsl.UntilOK(dsl.Named("nemesis", a))),
		"each thread":   dsl.EachThread(dsl.Mix(a, b)),
		"reserve":       dsl.Reserve([]dsl.Range{{Threads: 10, Gen: a}, {Threads: 20, Gen: b}}, c),
		"sequential":    dsl.IndependentSequential(dsl.IntKeys(), func(histories.Value) dsl.Generator { return a }),
		"concurrent":    dsl.IndependentConcurrent(7, dsl.IntKeys(), func(histories.Value) dsl.Generator { return a }),
		"workload":      appends(),
		"nest":          nest(100),
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(100, g)
			if !d.invoke(20_000) {
				t.Fatal("the generator ended")
			}
			const steps = 100
			if n := testing.AllocsPerRun(20, func() { d.invoke(steps) }); n > 12 {
				t.Errorf("%v allocations in %d steps", n, steps)
			}
		})
	}
}

func TestContextsDoNotAllocate(t *testing.T) {
	th := dsl.NewThreads(1024, 1, "nemesis")
	for i := range 900 {
		th.Busy(dsl.Thread(i))
	}
	if n := testing.AllocsPerRun(100, func() {
		ctx := th.Context(time.Second)
		ctx.SomeFree()
		ctx.FreeLen()
		ctx.AllFree()
		for t := range ctx.EachThread {
			ctx.IsFree(t)
		}
		ctx.Rand().Uint64()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// However long a test runs, its generator takes no more memory.
func TestMemoryStaysFlat(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	d := newDriver(100, dsl.Any(dsl.Clients(dsl.Mix(nest(50), appends())), dsl.Nemesis(dsl.Cycle(dsl.Seq(one("a"), one("b"))))))
	d.invoke(100_000)
	before := heap()
	n := 1_000_000
	if testing.Short() {
		n /= 10
	}
	if !d.invoke(n) {
		t.Fatal("the generator ended")
	}
	if after := heap(); after > before+256<<10 {
		t.Errorf("the heap has grown from %d to %d bytes in %d operations", before, after, n)
	}
	runtime.KeepAlive(d)
}

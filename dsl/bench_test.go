package dsl_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/jepsentest/workload"
)

// driver runs a generator as a scheduler does, in virtual time, with operations
// that complete in the order of their invocation: when nobody is free, or when
// the next operation is for later.
type driver struct {
	threads *dsl.Threads
	gen     dsl.Generator
	now     time.Duration
	flight  []histories.Op // a ring
	head, n int
}

func newDriver(threads int, g dsl.Generator) *driver {
	return &driver{threads: dsl.NewThreads(threads, 1, "nemesis"), gen: g, flight: make([]histories.Op, threads+1)}
}

func (d *driver) complete() {
	op := &d.flight[d.head]
	if d.head++; d.head == len(d.flight) {
		d.head = 0
	}
	d.n--
	op.Time = d.now
	if op.Process.IsClient() {
		op.Type = histories.OK
	} else {
		op.Phase = histories.End
	}
	th, _ := d.threads.Thread(op.Process)
	d.threads.Free(th)
	d.gen = d.gen.Update(d.threads.Context(d.now), op)
}

// invoke makes n invocations, and returns false if the generator ended before.
func (d *driver) invoke(n int) bool {
	for n > 0 {
		ctx := d.threads.Context(d.now)
		o := d.gen.Op(ctx)
		switch {
		case o.State == dsl.Done || o.State == dsl.Pending && d.n == 0:
			return false
		case o.State == dsl.Pending:
			d.complete()
			continue
		case o.Op.Time > d.now:
			if d.n > 0 {
				d.complete()
			}
			d.now = o.Op.Time
			continue
		}
		th, err := dsl.Check(ctx, o.Op)
		if err != nil {
			panic(err)
		}
		at := d.head + d.n
		if at >= len(d.flight) {
			at -= len(d.flight)
		}
		op := &d.flight[at]
		*op = histories.Op{Time: o.Op.Time, Process: o.Op.Process, F: o.Op.F, Value: o.Op.Value}
		if !op.Process.IsClient() {
			op.Type, op.Phase = histories.Info, histories.Begin
		}
		d.n++
		d.threads.Busy(th)
		d.gen = o.Next.Update(d.threads.Context(o.Op.Time), op)
		n--
	}
	return true
}

func appends() dsl.Generator {
	return dsl.Clients(workload.Append(workload.AppendOptions{}).Generator)
}

// nest is a generator as tests have it: registers of independent keys, each with
// readers and writers on threads of their own, paced, some threads reserved for
// something else, a nemesis beside it, all for a limited time.
func nest(threads int) dsl.Generator {
	op := func(f string) dsl.Generator { return dsl.Repeat(dsl.Once(dsl.Op{F: f})) }
	registers := dsl.IndependentConcurrent(10, dsl.IntKeys(), func(histories.Value) dsl.Generator {
		write := dsl.Ops(func(ctx dsl.Context) dsl.Op {
			return dsl.Op{F: "write", Value: histories.Int(ctx.Rand().Int64N(5))}
		})
		return dsl.Limit(1000, dsl.Reserve(
			[]dsl.Range{{Threads: 5, Gen: op("read")}},
			dsl.Mix(write, write, op("cas"))))
	})
	// Time is virtual: what matters is that the pace is such that nearly every
	// operation has to be waited for, and that faults are seldom.
	return dsl.TimeLimit(1000*time.Hour, dsl.Any(
		dsl.Clients(dsl.Stagger(time.Microsecond, dsl.Reserve(
			[]dsl.Range{{Threads: threads / 10, Gen: op("list")}}, registers))),
		dsl.Nemesis(dsl.Stagger(10*time.Millisecond, dsl.FlipFlop(op("start"), op("stop")))),
	))
}

// ballast stands for the rest of a test, whose heap has some size. Beside the few
// kilobytes of a generator alone, the garbage collector would run all the time,
// as it does in no test.
const ballast = 16 << 20

func benchmark(b *testing.B, g func(threads int) dsl.Generator) {
	for _, threads := range []int{100, 1024} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			rest := make([]byte, ballast)
			defer runtime.KeepAlive(rest)
			d := newDriver(threads, g(threads))
			d.invoke(10 * threads)
			b.ReportAllocs()
			b.ResetTimer()
			const n = 1000
			for b.Loop() {
				if !d.invoke(n) {
					b.Fatal("the generator ended")
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}

// Rows G1 and G2 of the table of benchmarks. ops/s are invocations.
func BenchmarkAppend(b *testing.B) { benchmark(b, func(int) dsl.Generator { return appends() }) }

// Rows G3 and G4.
func BenchmarkNest(b *testing.B) { benchmark(b, nest) }

func BenchmarkContext(b *testing.B) {
	th := dsl.NewThreads(1024, 1, "nemesis")
	for i := range 1000 {
		th.Busy(dsl.Thread(i))
	}
	ctx := th.Context(0)
	b.Run("SomeFree", func(b *testing.B) {
		for b.Loop() {
			ctx.SomeFree()
		}
	})
	b.Run("FreeLen", func(b *testing.B) {
		for b.Loop() {
			ctx.FreeLen()
		}
	})
	b.Run("AllFree", func(b *testing.B) {
		for b.Loop() {
			ctx.AllFree()
		}
	})
}

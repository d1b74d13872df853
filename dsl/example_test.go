package dsl_test

import (
	"fmt"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/dsl/simulate"
	"github.com/jepsentest/go/histories"
)

// The examples run on two clients, a nemesis, and one more thread for faults of
// the clock. They print when each operation is invoked, by whom, and what it is.

func show(g dsl.Generator) { showWith(simulate.Perfect, g) }

func showWith(complete simulate.Completer, g dsl.Generator) {
	h, err := simulate.Invocations(g, simulate.Options{Named: []string{"nemesis", "clock"}, Complete: complete})
	if err != nil {
		panic(err)
	}
	names := histories.Names{"nemesis", "clock"}
	for _, op := range h {
		fmt.Println(op.Time, names.Name(op.Process), op.F, op.Value)
	}
}

// endless offers operations that have only an f, without end.
func endless(f string) dsl.Generator { return dsl.Repeat(dsl.Once(dsl.Op{F: f})) }

func first(_ dsl.Context, t dsl.Thread) bool { return t == 0 }

func ExampleOnce() {
	show(dsl.Once(dsl.Op{F: "read"}))
	// Output:
	// 0s 0 read nil
}

func ExampleInvocation() {
	show(dsl.Invocation("write", histories.Int(1)))
	// Output:
	// 0s 0 write 1
}

func ExampleSleep() {
	show(dsl.Nemesis(dsl.Seq(dsl.Sleep(time.Second), dsl.Once(dsl.Op{F: "kill"}))))
	// Output:
	// 1s nemesis kill nil
}

func ExampleLog() {
	show(dsl.Seq(dsl.Log("begin"), dsl.Once(dsl.Op{F: "read"})))
	// Output:
	// 0s 1 read nil
}

func ExampleOps() {
	show(dsl.Limit(3, dsl.Ops(func(ctx dsl.Context) dsl.Op {
		return dsl.Op{F: "write", Value: histories.Int(ctx.Rand().Int64N(100))}
	})))
	// Output:
	// 0s 0 write 22
	// 0s 1 write 11
	// 0s nemesis write 64
}

func ExampleSeq() {
	show(dsl.Seq(dsl.Once(dsl.Op{F: "write"}), dsl.Once(dsl.Op{F: "read"})))
	// Output:
	// 0s 0 write nil
	// 0s 1 read nil
}

func ExampleFunc() {
	show(dsl.Limit(4, dsl.Func(func(ctx dsl.Context) dsl.Generator {
		v := histories.Int(ctx.Rand().Int64N(100))
		return dsl.Seq(dsl.Invocation("write", v), dsl.Once(dsl.Op{F: "read"}))
	})))
	// Output:
	// 0s 0 write 22
	// 0s 1 read nil
	// 0s nemesis write 64
	// 0s clock read nil
}

func ExampleLazy() {
	show(dsl.Lazy(func() dsl.Generator { return dsl.Once(dsl.Op{F: "read"}) }))
	// Output:
	// 0s 0 read nil
}

func ExamplePromise() {
	var p dsl.Promise
	p.Deliver(dsl.Once(dsl.Op{F: "read"}))
	show(&p)
	// Output:
	// 0s 0 read nil
}

func ExamplePrepare() {
	leaders := []string{"n1", "n3"} // what the database would say
	show(dsl.Nemesis(dsl.Prepare(func(i int) dsl.Generator {
		if i == len(leaders) {
			return nil
		}
		return dsl.Invocation("kill", histories.String(leaders[i]))
	})))
	// Output:
	// 0s nemesis kill "n1"
	// 10ns nemesis kill "n3"
}

func ExampleRepeat() {
	show(dsl.Limit(3, dsl.Repeat(dsl.Once(dsl.Op{F: "read"}))))
	// Output:
	// 0s 0 read nil
	// 0s 1 read nil
	// 0s nemesis read nil
}

func ExampleRepeatN() {
	show(dsl.RepeatN(3, dsl.Once(dsl.Op{F: "read"})))
	// Output:
	// 0s 0 read nil
	// 0s 1 read nil
	// 0s nemesis read nil
}

func ExampleCycle() {
	show(dsl.Limit(3, dsl.Cycle(dsl.Seq(dsl.Once(dsl.Op{F: "write"}), dsl.Once(dsl.Op{F: "read"})))))
	// Output:
	// 0s 0 write nil
	// 0s 1 read nil
	// 0s nemesis write nil
}

func ExampleCycleN() {
	show(dsl.CycleN(2, dsl.Seq(dsl.Once(dsl.Op{F: "write"}), dsl.Once(dsl.Op{F: "read"}))))
	// Output:
	// 0s 0 write nil
	// 0s 1 read nil
	// 0s nemesis write nil
	// 0s clock read nil
}

func ExampleFlipFlop() {
	show(dsl.Limit(4, dsl.FlipFlop(endless("start"), endless("stop"))))
	// Output:
	// 0s 0 start nil
	// 0s 1 stop nil
	// 0s nemesis start nil
	// 0s clock stop nil
}

func ExampleAny() {
	show(dsl.Any(dsl.Clients(dsl.Once(dsl.Op{F: "read"})), dsl.Nemesis(dsl.Once(dsl.Op{F: "kill"}))))
	// Output:
	// 0s 0 read nil
	// 0s nemesis kill nil
}

func ExampleShortestAny() {
	show(dsl.ShortestAny(dsl.Clients(dsl.Delay(10, endless("read"))), dsl.Nemesis(dsl.Seq(dsl.Sleep(25), dsl.Once(dsl.Op{F: "kill"})))))
	// Output:
	// 0s 0 read nil
	// 10ns 1 read nil
	// 20ns 0 read nil
	// 25ns nemesis kill nil
}

func ExampleMix() {
	show(dsl.Limit(5, dsl.Mix(endless("read"), endless("write"))))
	// Output:
	// 0s 0 read nil
	// 0s 1 read nil
	// 0s nemesis write nil
	// 0s clock read nil
	// 10ns 0 write nil
}

func ExampleMixWeighted() {
	show(dsl.Limit(5, dsl.MixWeighted(
		dsl.Weighted{Weight: 9, Gen: endless("read")},
		dsl.Weighted{Weight: 1, Gen: endless("write")})))
	// Output:
	// 0s 0 read nil
	// 0s 1 read nil
	// 0s nemesis read nil
	// 0s clock read nil
	// 10ns 0 read nil
}

func ExampleLimit() {
	show(dsl.Limit(2, endless("read")))
	// Output:
	// 0s 0 read nil
	// 0s 1 read nil
}

func ExampleProcessLimit() {
	// Every operation crashes its process. With two clients, the fifth process is
	// one too many.
	showWith(simulate.Crashing, dsl.Clients(dsl.ProcessLimit(4, endless("read"))))
	// Output:
	// 0s 0 read nil
	// 0s 1 read nil
	// 10ns 2 read nil
	// 10ns 3 read nil
}

func ExampleConcurrencyLimit() {
	show(dsl.ConcurrencyLimit(1, dsl.Limit(3, endless("read"))))
	// Output:
	// 0s 0 read nil
	// 10ns 1 read nil
	// 20ns nemesis read nil
}

func ExampleTimeLimit() {
	show(dsl.TimeLimit(3*time.Second, dsl.Delay(time.Second, endless("read"))))
	// Output:
	// 0s 0 read nil
	// 1s 1 read nil
	// 2s nemesis read nil
}

func ExampleEndEarly() {
	show(dsl.EndEarly(2, 0.5, endless("read")))
	// Output:
	// 0s 0 read nil
	// 0s 1 read nil
}

func ExampleStagger() {
	show(dsl.Limit(4, dsl.Stagger(time.Second, endless("read"))))
	// Output:
	// 0s 0 read nil
	// 445.312429ms 1 read nil
	// 1.733204724s nemesis read nil
	// 3.474343674s clock read nil
}

func ExampleStaggerBy() {
	faster := func(at time.Duration) time.Duration { return time.Second - at/10 }
	show(dsl.Limit(4, dsl.StaggerBy(faster, endless("read"))))
	// Output:
	// 0s 0 read nil
	// 445.312429ms 1 read nil
	// 1.67585328s nemesis read nil
	// 3.125202888s clock read nil
}

func ExampleDelay() {
	show(dsl.Limit(3, dsl.Delay(time.Second, endless("read"))))
	// Output:
	// 0s 0 read nil
	// 1s 1 read nil
	// 2s nemesis read nil
}

func ExampleCycleTimes() {
	show(dsl.TimeLimit(5*time.Second, dsl.CycleTimes(
		dsl.Window{For: 2 * time.Second, Gen: dsl.Stagger(time.Second, endless("read"))},
		dsl.Window{For: time.Second, Gen: dsl.Stagger(300*time.Millisecond, endless("write"))})))
	// Output:
	// 0s 0 read nil
	// 445.312429ms 1 read nil
	// 1.733204724s nemesis read nil
	// 2s clock write nil
	// 2.080060327s 0 write nil
	// 2.277726755s 1 write nil
	// 2.741855591s nemesis write nil
	// 2.789860882s clock write nil
	// 3.474343674s 0 read nil
	// 3.862523147s 1 read nil
}

func ExampleSynchronize() {
	show(dsl.Seq(dsl.Once(dsl.Op{F: "write"}), dsl.Synchronize(dsl.Once(dsl.Op{F: "read"}))))
	// Output:
	// 0s 0 write nil
	// 10ns 1 read nil
}

func ExampleThen() {
	show(dsl.Then(dsl.Limit(2, endless("write")), dsl.Once(dsl.Op{F: "read"})))
	// Output:
	// 0s 0 write nil
	// 0s 1 write nil
	// 10ns nemesis read nil
}

func ExampleUntilOK() {
	// The first fails, the second crashes, the third succeeds.
	showWith(simulate.Imperfect(1), dsl.UntilOK(dsl.OnThreads(first, endless("create"))))
	// Output:
	// 0s 0 create nil
	// 10ns 0 create nil
	// 20ns 2 create nil
}

func ExampleOnThreads() {
	show(dsl.OnThreads(func(_ dsl.Context, t dsl.Thread) bool { return t == 1 }, dsl.Limit(2, endless("read"))))
	// Output:
	// 0s 1 read nil
	// 10ns 1 read nil
}

func ExampleClients() {
	show(dsl.Clients(dsl.EachThread(dsl.Once(dsl.Op{F: "read"}))))
	// Output:
	// 0s 0 read nil
	// 0s 1 read nil
}

func ExampleNemesis() {
	show(dsl.Nemesis(dsl.Once(dsl.Op{F: "kill"})))
	// Output:
	// 0s nemesis kill nil
}

func ExampleNamed() {
	show(dsl.Any(dsl.Named("nemesis", dsl.Once(dsl.Op{F: "kill"})), dsl.Named("clock", dsl.Once(dsl.Op{F: "skew"}))))
	// Output:
	// 0s nemesis kill nil
	// 0s clock skew nil
}

func ExampleEachThread() {
	show(dsl.Clients(dsl.EachThread(dsl.Seq(dsl.Once(dsl.Op{F: "write"}), dsl.Once(dsl.Op{F: "read"})))))
	// Output:
	// 0s 0 write nil
	// 0s 1 write nil
	// 10ns 0 read nil
	// 10ns 1 read nil
}

func ExampleEachProcess() {
	// Every operation crashes: the new processes begin again.
	showWith(simulate.Crashing, dsl.Limit(4, dsl.Clients(dsl.EachProcess(dsl.Once(dsl.Op{F: "open"})))))
	// Output:
	// 0s 0 open nil
	// 0s 1 open nil
	// 10ns 2 open nil
	// 10ns 3 open nil
}

func ExampleReserve() {
	show(dsl.Clients(dsl.Reserve(
		[]dsl.Range{{Threads: 1, Gen: dsl.Limit(2, endless("write"))}},
		dsl.Limit(2, endless("read")))))
	// Output:
	// 0s 0 write nil
	// 0s 1 read nil
	// 10ns 0 write nil
	// 10ns 1 read nil
}

func ExampleIndependentSequential() {
	tables := dsl.KeysOf(histories.String("a"), histories.String("b"))
	show(dsl.Clients(dsl.IndependentSequential(tables, func(key histories.Value) dsl.Generator {
		return dsl.Limit(2, dsl.Repeat(dsl.Invocation("write", histories.Int(1))))
	})))
	// Output:
	// 0s 0 write ["a" 1]
	// 0s 1 write ["a" 1]
	// 10ns 0 write ["b" 1]
	// 10ns 1 write ["b" 1]
}

func ExampleIndependentConcurrent() {
	// Two clients in groups of one: each works on a key of its own.
	show(dsl.IndependentConcurrent(1, dsl.FirstKeys(3, dsl.IntKeys()), func(key histories.Value) dsl.Generator {
		return dsl.Limit(2, endless("read"))
	}))
	// Output:
	// 0s 0 read [0 nil]
	// 0s 1 read [1 nil]
	// 10ns 0 read [0 nil]
	// 10ns 1 read [1 nil]
	// 20ns 0 read [2 nil]
	// 30ns 0 read [2 nil]
}

func ExampleKeyTracker() {
	var keys dsl.KeyTracker
	append1 := func(key int64) dsl.Generator {
		return dsl.Invocation("txn", histories.Txn(histories.Append(histories.Int(key), histories.Int(1))))
	}
	show(dsl.Phases(
		keys.Watch(dsl.Seq(append1(0), append1(2))),
		keys.Batches(2, func(from, to int64) dsl.Generator { return dsl.Invocation("read", histories.Ints(from, to)) })))
	// Output:
	// 0s 0 txn [[:append 0 1]]
	// 0s 1 txn [[:append 2 1]]
	// 10ns nemesis read [0 2]
	// 10ns clock read [2 3]
}

func ExampleMap() {
	double := func(_ dsl.Context, op dsl.Op) dsl.Op {
		v, _ := op.Value.Int()
		op.Value = histories.Int(2 * v)
		return op
	}
	show(dsl.Map(double, dsl.Invocation("write", histories.Int(21))))
	// Output:
	// 0s 0 write 42
}

func ExampleRenameF() {
	show(dsl.RenameF(map[string]string{"add": "enqueue"}, dsl.Once(dsl.Op{F: "add"})))
	// Output:
	// 0s 0 enqueue nil
}

func ExampleFilter() {
	show(dsl.Limit(3, dsl.Filter(func(op dsl.Op) bool { return op.F != "write" }, dsl.Mix(endless("read"), endless("write")))))
	// Output:
	// 0s 0 read nil
	// 0s 1 read nil
	// 0s nemesis read nil
}

func ExampleOnUpdate() {
	// The second invocation is the last.
	n := 0
	show(dsl.OnUpdate(func(g dsl.Generator, ctx dsl.Context, ev *histories.Op) dsl.Generator {
		if n++; n == 2 {
			return nil
		}
		return g.Update(ctx, ev)
	}, endless("read")))
	// Output:
	// 0s 0 read nil
	// 0s 1 read nil
}

func ExampleWatch() {
	n := 0
	show(dsl.Watch(func(ev *histories.Op) { n++ }, dsl.Limit(2, endless("read"))))
	fmt.Println(n, "events")
	// Output:
	// 0s 0 read nil
	// 0s 1 read nil
	// 4 events
}

func ExampleTrace() {
	logf := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	show(dsl.Trace(logf, "final", dsl.Clients(dsl.Once(dsl.Op{F: "read"}))))
	// Output:
	// final at 0s: offers read nil to process 0 at 0s
	// 0s 0 read nil
}

func ExampleValidate() {
	defer func() { fmt.Println(recover()) }()
	late := dsl.Map(func(_ dsl.Context, op dsl.Op) dsl.Op { op.Time--; return op }, dsl.Once(dsl.Op{F: "read"}))
	dsl.Validate("late", late).Op(dsl.NewThreads(1, 1).Context(time.Second))
	// Output:
	// generator late, asked at 1s with 1 of 1 threads free: operation "read" is for the time 999.999999ms, which is past
}

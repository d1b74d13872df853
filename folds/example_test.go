package folds_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/histories"
)

// example is a history of two clients, each of whose operations takes some
// milliseconds.
func example() histories.History {
	const ms = time.Millisecond
	inv, ok, fail, info := histories.Invoke, histories.OK, histories.Fail, histories.Info
	return histories.Must(histories.New(
		histories.Op{Time: 1 * ms, Process: 0, Type: inv, F: "write", Value: histories.Int(3)},
		histories.Op{Time: 2 * ms, Process: 1, Type: inv, F: "read"},
		histories.Op{Time: 4 * ms, Process: 0, Type: ok, F: "write", Value: histories.Int(3)},
		histories.Op{Time: 5 * ms, Process: 1, Type: ok, F: "read", Value: histories.Int(3)},
		histories.Op{Time: 6 * ms, Process: 0, Type: inv, F: "write", Value: histories.Int(5)},
		histories.Op{Time: 7 * ms, Process: 1, Type: inv, F: "read"},
		histories.Op{Time: 9 * ms, Process: 0, Type: fail, F: "write", Value: histories.Int(5)},
		histories.Op{Time: 12 * ms, Process: 1, Type: ok, F: "read", Value: histories.Int(3)},
		histories.Op{Time: 13 * ms, Process: 0, Type: inv, F: "write", Value: histories.Int(8)},
		histories.Op{Time: 20 * ms, Process: 0, Type: info, F: "write", Value: histories.Int(8)},
	))
}

// show runs a fold over the example and prints its result.
func show[A, R any](f folds.Fold[A, R]) {
	r, err := folds.Run(context.Background(), example(), f)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r)
}

// numbers are the integers among the values of the entries.
func numbers[A, R any](g folds.Agg[int64, A, R]) folds.Fold[A, R] {
	return folds.Over(folds.Values(), folds.Keep(histories.Value.Int, g))
}

func ExampleRun() {
	reads := folds.Fold[int64, int64]{
		Name:    "count reads",
		Columns: histories.ColF | histories.ColType,
		New:     func() int64 { return 0 },
		Step: func(n int64, op histories.Op) (int64, error) {
			if op.F == "read" && op.Type == histories.OK {
				n++
			}
			return n, nil
		},
		Merge:  func(a, b int64) (int64, error) { return a + b, nil },
		Result: func(n int64) (int64, error) { return n, nil },
	}
	n, err := folds.Run(context.Background(), example(), reads)
	fmt.Println(n, err)
	// Output: 2 <nil>
}

func ExampleRun_linear() {
	// Without Merge, one accumulator sees all operations in order.
	stale := errors.New("stale read")
	register := folds.Fold[int64, int64]{
		Name: "register",
		New:  func() int64 { return 0 },
		Step: func(now int64, op histories.Op) (int64, error) {
			v, _ := op.Value.Int()
			switch {
			case op.Type != histories.OK:
				return now, nil
			case op.F == "write":
				return v, nil
			case v != now:
				return now, stale
			}
			return now, nil
		},
		Result: func(now int64) (int64, error) { return now, nil },
	}
	last, err := folds.Run(context.Background(), example(), register)
	fmt.Println(last, err)
	// Output: 3 <nil>
}

func ExampleRun_stop() {
	// ErrStop: nothing that follows is needed.
	firstFailure := folds.Fold[string, string]{
		Name: "first failure",
		New:  func() string { return "none" },
		Step: func(s string, op histories.Op) (string, error) {
			if op.Type == histories.Fail {
				return op.String(), folds.ErrStop
			}
			return s, nil
		},
		Result: func(s string) (string, error) { return s, nil },
	}
	show(firstFailure)
	// Output: #6 0.009000s 0 fail :write 5
}

func ExampleLive() {
	// A history that is complete has nothing more to wait for.
	failures := 0
	_, err := folds.Live(context.Background(), example(),
		folds.Over(folds.Types(), folds.Filter(func(t histories.Type) bool { return t == histories.Fail }, folds.Count[histories.Type]())),
		folds.LiveOptions[int64]{After: func(n int64) error {
			if n > 0 {
				failures = int(n)
				return folds.ErrStop // here a test would be stopped
			}
			return nil
		}})
	fmt.Println(failures, err)
	// Output: 1 <nil>
}

func ExampleFolder_Stats() {
	h := example()
	if _, err := folds.Run(context.Background(), h, folds.Over(folds.Fs(), folds.Count[string]())); err != nil {
		fmt.Println(err)
	}
	s := folds.For(h).Stats()
	fmt.Println(s.Folds, "fold,", s.Passes, "pass,", s.Read, "chunk")
	// Output: 1 fold, 1 pass, 1 chunk
}

func ExampleFolder_Trace() {
	h := example()
	var trace strings.Builder
	stop := folds.For(h).Trace(&trace)
	if _, err := folds.Run(context.Background(), h, folds.Over(folds.Fs(), folds.Count[string]())); err != nil {
		fmt.Println(err)
	}
	fmt.Println(stop())
	fmt.Println(strings.Contains(trace.String(), `"name":"reduce count of f"`))
	// Output:
	// <nil>
	// true
}

func ExampleOver() {
	show(folds.Over(folds.Fs(), folds.Frequencies[string]()))
	// Output: map[read:4 write:6]
}

func ExampleFieldOf() {
	// The clients' threads, of which there are two.
	thread := folds.FieldOf(histories.ColProcess, func(op histories.Op) int64 { return int64(op.Process % 2) })
	show(folds.Over(thread, folds.Frequencies[int64]()))
	// Output: map[0:6 1:4]
}

func ExampleCount() {
	show(folds.Over(folds.Ops(), folds.Count[histories.Op]()))
	// Output: 10
}

func ExampleSum() {
	show(numbers(folds.Sum[int64]()))
	// Output: 38
}

func ExampleMean() {
	show(numbers(folds.Mean[int64]()))
	// Output: 4.75
}

func ExampleVariance() {
	r, err := folds.Run(context.Background(), example(), numbers(folds.Variance[int64]()))
	fmt.Printf("%d numbers, mean %.2f, variance %.2f, deviation %.2f, %v\n", r.N, r.Mean, r.Variance(), r.StdDev(), err)
	// Output: 8 numbers, mean 4.75, variance 4.79, deviation 2.19, <nil>
}

func ExampleMin() {
	show(numbers(folds.Min[int64]()))
	// Output: {3 true}
}

func ExampleMax() {
	show(numbers(folds.Max[int64]()))
	// Output: {8 true}
}

func ExampleMinBy() {
	byValue := func(a, b histories.Op) int {
		x, _ := a.Value.Int()
		y, _ := b.Value.Int()
		return int(y - x) // turned round: the greatest
	}
	show(folds.Over(folds.Ops(), folds.MinBy(byValue)))
	// Output: {#8 0.013000s 0 invoke :write 8 true}
}

func ExampleFirst() {
	show(folds.Over(folds.Ops(), folds.Filter(
		func(op histories.Op) bool { return op.Type == histories.Info },
		folds.First[histories.Op]())))
	// Output: {#9 0.020000s 0 info :write 8 true}
}

func ExampleLast() {
	show(folds.Over(folds.Fs(), folds.Last[string]()))
	// Output: {write true}
}

func ExampleAny() {
	show(folds.Over(folds.Types(), folds.Any(func(t histories.Type) bool { return t == histories.Info })))
	// Output: true
}

func ExampleEvery() {
	show(folds.Over(folds.Processes(), folds.Every(histories.Process.IsClient)))
	// Output: true
}

func ExampleInto() {
	show(numbers(folds.Into[int64]()))
	// Output: [3 3 3 5 5 3 8 8]
}

func ExampleFrequencies() {
	show(folds.Over(folds.FTypes(), folds.Frequencies[folds.FType]()))
	// Output: map[{read invoke}:2 {read ok}:2 {write invoke}:3 {write ok}:1 {write fail}:1 {write info}:1]
}

func ExampleMostFrequent() {
	show(numbers(folds.MostFrequent[int64](2)))
	// Output: [{3 4} {5 2}]
}

func ExampleTop() {
	show(numbers(folds.Top(3, func(a, b int64) int { return int(a - b) })))
	// Output: [8 8 5]
}

func ExampleQuantiles() {
	h, err := folds.Run(context.Background(), example(), folds.Over(folds.Times(), folds.Quantiles[time.Duration]()))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(h.N(), h.Min(), h.Quantile(0.5).Round(100*time.Microsecond), h.Max())
	// Output: 10 1ms 6ms 20ms
}

func ExampleDistinct() {
	r, err := folds.Run(context.Background(), example(), numbers(folds.Distinct[int64]()))
	fmt.Println(len(r), err)
	// Output: 3 <nil>
}

func ExampleCardinality() {
	show(numbers(folds.Cardinality(folds.HashInt[int64])))
	// Output: 3
}

func ExampleMap() {
	seconds := func(d time.Duration) float64 { return d.Seconds() }
	show(folds.Over(folds.Times(), folds.Map(seconds, folds.Max[float64]())))
	// Output: {0.02 true}
}

func ExampleFilter() {
	completed := func(op histories.Op) bool { return op.Type == histories.OK }
	show(folds.Over(folds.Ops(), folds.Filter(completed, folds.Count[histories.Op]())))
	// Output: 3
}

func ExampleKeep() {
	show(folds.Over(folds.Values(), folds.Keep(histories.Value.Int, folds.Sum[int64]())))
	// Output: 38
}

func ExampleGroupBy() {
	f := func(op histories.Op) string { return op.F }
	number := func(op histories.Op) (int64, bool) { return op.Value.Int() }
	show(folds.Over(folds.Ops(), folds.GroupBy(f, folds.Keep(number, folds.Sum[int64]()))))
	// Output: map[read:6 write:32]
}

func ExampleFacet() {
	// How many appends there are to each key of transactions.
	txn := histories.Txn(
		histories.Append(histories.Int(1), histories.Int(10)),
		histories.Read(histories.Int(1)),
		histories.Append(histories.Int(2), histories.Int(20)),
		histories.Append(histories.Int(2), histories.Int(30)))
	h := histories.Must(histories.New(histories.Op{F: "txn", Value: txn}))
	byKey := func(v histories.Value) iter.Seq2[int64, histories.Mop] {
		return func(yield func(int64, histories.Mop) bool) {
			mops, _ := v.Txn()
			for _, m := range mops {
				if key, ok := m.Key.Int(); ok && !yield(key, m) {
					return
				}
			}
		}
	}
	appends := folds.Filter(func(m histories.Mop) bool { return m.Kind == histories.MopAppend }, folds.Count[histories.Mop]())
	r, err := folds.Run(context.Background(), h, folds.Over(folds.Values(), folds.Facet(byKey, appends)))
	fmt.Println(r, err)
	// Output: map[1:1 2:2] <nil>
}

func ExampleFuse() {
	show(numbers(folds.Fuse(folds.Min[int64](), folds.Fuse(folds.Max[int64](), folds.Count[int64]()))))
	// Output: {{3 true} {{8 true} 8}}
}

func ExamplePoll() {
	h := example()
	wait := folds.Poll(h.Source(), time.Millisecond, func() (complete bool, err error) { return true, nil })
	n, err := folds.Live(context.Background(), h, folds.Over(folds.Fs(), folds.Into[string]()), folds.LiveOptions[[]string]{Wait: wait})
	slices.Sort(n)
	fmt.Println(len(slices.Compact(n)), err)
	// Output: 2 <nil>
}

package folds_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/histories"
	"pgregory.net/rapid"
)

// field hands out numbers by position, with or without a Tally, so that both
// ways through an aggregation are compared with the same naive computation.
func field(xs []int64, tally bool) folds.Field[int64] {
	f := folds.Field[int64]{Name: "number", Columns: histories.ColIndex,
		At: func(c *histories.Chunk, i int) int64 { return xs[c.IndexAt(i)] }}
	if tally {
		f.Tally = func(c *histories.Chunk, yield func(int64, int64)) {
			n := map[int64]int64{}
			for i := range c.Len() {
				n[xs[c.IndexAt(i)]]++
			}
			for _, x := range slices.Sorted(maps.Keys(n)) {
				yield(x, n[x])
			}
		}
	}
	return f
}

// agree checks that an aggregation computes want, over chunks of any size.
func agree[A, R any](t *rapid.T, h histories.History, xs []int64, g folds.Agg[int64, A, R], want R) {
	t.Helper()
	for _, tally := range []bool{false, true} {
		got, err := folds.Run(context.Background(), h, folds.Over(field(xs, tally), g))
		if err != nil || !equal(got, want) {
			t.Fatalf("%s of %v (tally %v): got %v, %v, want %v", g.Name, xs, tally, got, err, want)
		}
	}
}

// equal compares, floating-point numbers with some tolerance.
func equal(a, b any) bool {
	x, ok := a.(float64)
	if y, both := b.(float64); ok && both {
		return math.IsNaN(x) && math.IsNaN(y) || math.Abs(x-y) <= 1e-9*max(1, math.Abs(y))
	}
	return reflect.DeepEqual(a, b)
}

func TestAggregationsAgreeWithNaiveOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Int64Range(-6, 12), 0, 80).Draw(t, "numbers")
		b := histories.Builder{ChunkSize: rapid.IntRange(1, 30).Draw(t, "chunk")}
		for i := range xs {
			if err := b.Add(histories.Op{Index: int64(i), Process: histories.Process(i)}); err != nil {
				t.Fatal(err)
			}
		}
		h := b.History()
		n := int64(len(xs))
		var sum int64
		freq, sums := map[int64]int64{}, map[int64]int64{}
		set := map[int64]struct{}{}
		firsts := map[int64]folds.Maybe[int64]{}
		for _, x := range xs {
			sum += x
			freq[x]++
			sums[x&3] += x
			set[x] = struct{}{}
			if !firsts[x&3].OK {
				firsts[x&3] = folds.Maybe[int64]{Value: x, OK: true}
			}
		}
		maybe := func(ok bool, f func() int64) folds.Maybe[int64] {
			if !ok {
				return folds.Maybe[int64]{}
			}
			return folds.Maybe[int64]{Value: f(), OK: true}
		}
		mean := math.NaN()
		if n > 0 {
			mean = float64(sum) / float64(n)
		}
		variance := math.NaN()
		if n > 1 {
			variance = 0
			for _, x := range xs {
				variance += (float64(x) - mean) * (float64(x) - mean)
			}
			variance /= float64(n - 1)
		}
		some := len(xs) > 0
		agree(t, h, xs, folds.Count[int64](), n)
		agree(t, h, xs, folds.Sum[int64](), sum)
		agree(t, h, xs, folds.Mean[int64](), mean)
		v := folds.Variance[int64]()
		agree(t, h, xs, folds.Agg[int64, folds.Moments, float64]{Name: "variance", New: v.New, Add: v.Add, AddN: v.AddN, Merge: v.Merge,
			Result: func(m folds.Moments) (float64, error) { return m.Variance(), nil }}, variance)
		agree(t, h, xs, folds.Min[int64](), maybe(some, func() int64 { return slices.Min(xs) }))
		agree(t, h, xs, folds.Max[int64](), maybe(some, func() int64 { return slices.Max(xs) }))
		agree(t, h, xs, folds.First[int64](), maybe(some, func() int64 { return xs[0] }))
		agree(t, h, xs, folds.Last[int64](), maybe(some, func() int64 { return xs[len(xs)-1] }))
		seven := func(x int64) bool { return x == 7 }
		agree(t, h, xs, folds.Any(seven), slices.Contains(xs, 7))
		agree(t, h, xs, folds.Every(func(x int64) bool { return x != 7 }), !slices.Contains(xs, 7))
		var all []int64
		agree(t, h, xs, folds.Into[int64](), append(all, xs...))
		agree(t, h, xs, folds.Frequencies[int64](), freq)
		agree(t, h, xs, folds.Distinct[int64](), set)
		agree(t, h, xs, folds.Cardinality(folds.HashInt[int64]), int64(len(set)))
		low := func(x int64) int64 { return x & 3 }
		agree(t, h, xs, folds.GroupBy(low, folds.Sum[int64]()), sums)
		agree(t, h, xs, folds.GroupBy(low, folds.First[int64]()), firsts)
		agree(t, h, xs, folds.Fuse(folds.First[int64](), folds.Sum[int64]()),
			folds.Pair[folds.Maybe[int64], int64]{First: maybe(some, func() int64 { return xs[0] }), Second: sum})
		agree(t, h, xs, folds.Map(func(x int64) int64 { return -x }, folds.Sum[int64]()), -sum)
		agree(t, h, xs, folds.Filter(seven, folds.Count[int64]()), freq[7])

		// Top keeps, of equal ones, the first: elements carry their positions.
		type placed struct{ x, at int64 }
		k := rapid.IntRange(0, 5).Draw(t, "k")
		order := func(a, b placed) int { return cmp.Compare(a.x, b.x) }
		var want []placed
		for i, x := range xs {
			want = append(want, placed{x, int64(i)})
		}
		slices.SortStableFunc(want, func(a, b placed) int { return -order(a, b) })
		want = want[:min(k, len(want))]
		got, err := folds.Run(context.Background(), h, folds.Over(
			folds.FieldOf(histories.ColIndex, func(op histories.Op) placed { return placed{xs[op.Index], op.Index} }),
			folds.Top(k, order)))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("top %d: got %v, %v, want %v", k, got, err, want)
		}
	})
}

func TestQuantilesAreClose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.OneOf(rapid.Int64(), rapid.Int64Range(-300, 300), rapid.Just(int64(math.MinInt64))), 1, 60).Draw(t, "numbers")
		b := histories.Builder{ChunkSize: rapid.IntRange(1, 20).Draw(t, "chunk")}
		for i := range xs {
			if err := b.Add(histories.Op{Index: int64(i), Process: histories.Process(i)}); err != nil {
				t.Fatal(err)
			}
		}
		h, err := folds.Run(context.Background(), b.History(), folds.Over(field(xs, false), folds.Quantiles[int64]()))
		if err != nil {
			t.Fatal(err)
		}
		sorted := slices.Sorted(slices.Values(xs))
		for rank, want := range sorted {
			q := (float64(rank) + 0.5) / float64(len(xs))
			got := h.Quantile(q)
			if d := math.Abs(float64(got) - float64(want)); d > math.Abs(float64(want))/255 {
				t.Fatalf("quantile %v of %v: got %d, want %d", q, sorted, got, want)
			}
		}
		if h.Min() != sorted[0] || h.Max() != sorted[len(sorted)-1] || h.N() != int64(len(xs)) {
			t.Fatalf("got %d from %d to %d", h.N(), h.Min(), h.Max())
		}
	})
}

func TestCardinalityIsClose(t *testing.T) {
	for _, n := range []int{10, 1000, 20_000, 300_000} {
		g := folds.Cardinality(folds.HashString)
		acc := g.New()
		for i := range n {
			acc, _ = g.Add(acc, fmt.Sprint("key ", i))
			if i%3 == 0 {
				acc, _ = g.Add(acc, fmt.Sprint("key ", i/2))
			}
		}
		got, err := g.Result(acc)
		if err != nil || math.Abs(float64(got)-float64(n)) > 0.05*float64(n) {
			t.Errorf("%d different elements: got %d, %v", n, got, err)
		}
	}
}

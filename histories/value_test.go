package histories_test

import (
	"math"
	"testing"

	"github.com/jepsentest/go/histories"
	"pgregory.net/rapid"
)

type custom struct{ A, B int }

// drawAny draws a value of any kind.
func drawAny(t *rapid.T, depth int) histories.Value {
	kinds := 8
	if depth > 0 {
		kinds = 15
	}
	sub := func() histories.Value { return drawAny(t, depth-1) }
	several := func() (vs []histories.Value) {
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			vs = append(vs, sub())
		}
		return vs
	}
	text := func() string { return rapid.SampledFrom([]string{"", "a", "ab"}).Draw(t, "text") }
	small := func() int64 { return rapid.Int64Range(-1, 2).Draw(t, "int") }
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return histories.Nil()
	case 1:
		return histories.Bool(rapid.Bool().Draw(t, "bool"))
	case 2:
		return histories.Int(small())
	case 3:
		return histories.Float(float64(small()))
	case 4:
		return histories.String(text())
	case 5:
		return histories.Keyword(text())
	case 6:
		return histories.Bytes([]byte(text()))
	case 7:
		return histories.Custom(custom{int(small()), 0})
	case 8:
		return histories.Ints(small(), small())
	case 9:
		return histories.List(several()...)
	case 10:
		return histories.SetOf(several()...)
	case 11:
		return histories.MapOf(histories.Entry{Key: histories.String("a"), Value: sub()}, histories.Entry{Key: histories.Int(1), Value: sub()})
	case 12:
		return histories.Tuple(sub(), sub())
	case 13:
		return histories.Tagged(text(), sub())
	default:
		return histories.Txn(histories.Append(sub(), sub()), histories.ReadOf(sub(), sub()))
	}
}

// Two values are equal if and only if their keys are, and a clone equals the
// original in every way.
func TestEqualityAndKeysAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawAny(t, 2), drawAny(t, 2)
		key := func(v histories.Value) string { return string(v.AppendKey(nil)) }
		if a.Equal(b) != b.Equal(a) || a.Equal(b) != (key(a) == key(b)) {
			t.Fatalf("%v (%v) and %v (%v): equal %v, keys equal %v", a, a.Kind(), b, b.Kind(), a.Equal(b), key(a) == key(b))
		}
		c := a.Clone()
		if !a.Equal(a) || !c.Equal(a) || c.Kind() != a.Kind() || c.String() != a.String() || c.Len() != a.Len() {
			t.Fatalf("the clone of %v is %v", a, c)
		}
	})
}

func TestEqualityAcrossRepresentations(t *testing.T) {
	one, two := histories.Int(1), histories.Int(2)
	for _, c := range []struct {
		a, b histories.Value
		want bool
	}{
		{histories.Ints(1, 2), histories.List(one, two), true},
		{histories.Ints(), histories.List(), true},
		{histories.Ints(1), histories.SetOf(one), false},
		{histories.SetOf(one, two), histories.SetOf(two, one), true},
		{histories.MapOf(histories.Entry{Key: one, Value: two}, histories.Entry{Key: two, Value: one}),
			histories.MapOf(histories.Entry{Key: two, Value: one}, histories.Entry{Key: one, Value: two}), true},
		{one, histories.Float(1), false},
		{histories.String("a"), histories.Keyword("a"), false},
		{histories.Float(math.NaN()), histories.Float(math.NaN()), true},
		{histories.Nil(), histories.List(), false},
		{histories.Value{}, histories.Nil(), true},
	} {
		if c.a.Equal(c.b) != c.want {
			t.Errorf("%v and %v: got %v", c.a, c.b, !c.want)
		}
	}
}

func TestAccessorsOfOtherKinds(t *testing.T) {
	v := histories.String("text")
	if _, ok := v.Int(); ok {
		t.Error("a string is an integer")
	}
	if _, ok := v.Txn(); ok {
		t.Error("a string is a transaction")
	}
	if f, ok := histories.Int(3).Float(); !ok || f != 3 {
		t.Error("an integer is no number")
	}
	if got, ok := histories.Ints(1, 2).List(); !ok || len(got) != 2 || !got[1].Equal(histories.Int(2)) {
		t.Error(got)
	}
	if c, ok := histories.Custom(custom{1, 2}).Custom(); !ok || c != (custom{1, 2}) {
		t.Error(c)
	}
}

func TestScalarsDoNotAllocate(t *testing.T) {
	text, ints, mops := "text", []int64{1, 2}, []histories.Mop{histories.Read(histories.Int(1))}
	var sink histories.Value
	n := testing.AllocsPerRun(100, func() {
		for _, v := range []histories.Value{histories.Nil(), histories.Bool(true), histories.Int(1 << 40), histories.Float(2.5),
			histories.String(text), histories.Keyword(text), histories.Ints(ints...), histories.Txn(mops...)} {
			sink = v
			if _, ok := sink.Int(); ok && !sink.Equal(v) {
				t.Fatal("not equal")
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func benchmarkHistory(b *testing.B, n int64) histories.History {
	b.Helper()
	var bld histories.Builder
	open := [20]bool{}
	for i := range n {
		p := i * 7 % 20
		op := histories.Op{Index: i, Process: histories.Process(p), F: "read"}
		if open[p] {
			op.Type = histories.OK
		}
		open[p] = !open[p]
		if err := bld.Add(op); err != nil {
			b.Fatal(err)
		}
	}
	return bld.History()
}

// BenchmarkPairIndex is row P1 of the table of benchmarks.
func BenchmarkPairIndex(b *testing.B) {
	const n = 1_000_000
	h := benchmarkHistory(b, n)
	first, err := h.Nth(0)
	if err != nil {
		b.Fatal(err)
	}
	var elapsed float64
	for b.Loop() {
		b.StopTimer()
		fresh := histories.FromSource(histories.WithoutPairs(h.Source()))
		b.StartTimer()
		if _, ok, err := fresh.Completion(first); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
	elapsed = b.Elapsed().Seconds()
	b.ReportMetric(n*float64(b.N)/elapsed, "ops/s")
}

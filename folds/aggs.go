package folds

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Number is what can be added up.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Maybe is a T if OK is true, and nothing if not.
type Maybe[T any] struct {
	Value T
	OK    bool
}

func same[A any](acc A) (A, error) { return acc, nil }

// Count returns the number of elements.
func Count[T any]() Agg[T, int64, int64] {
	return Agg[T, int64, int64]{
		Name:   "count",
		New:    func() int64 { return 0 },
		Add:    func(n int64, _ T) (int64, error) { return n + 1, nil },
		AddN:   func(n int64, _ T, k int64) (int64, error) { return n + k, nil },
		Merge:  func(a, b int64) (int64, error) { return a + b, nil },
		Result: same[int64],
	}
}

// Sum returns the sum of the elements. Integers wrap around.
func Sum[N Number]() Agg[N, N, N] {
	return Agg[N, N, N]{
		Name:   "sum",
		New:    func() N { return 0 },
		Add:    func(sum, x N) (N, error) { return sum + x, nil },
		AddN:   func(sum, x N, n int64) (N, error) { return sum + x*N(n), nil },
		Merge:  func(a, b N) (N, error) { return a + b, nil },
		Result: same[N],
	}
}

// Moments describe how numbers are distributed.
type Moments struct {
	N    int64
	Mean float64 // NaN if there are none
	m2   float64 // the sum of the squares of the distances from the mean
}

// Variance returns the variance of the numbers, as a sample of what could have
// been: NaN if there are fewer than two.
func (m Moments) Variance() float64 {
	if m.N < 2 {
		return math.NaN()
	}
	return m.m2 / float64(m.N-1)
}

// StdDev returns the standard deviation, the root of the variance.
func (m Moments) StdDev() float64 { return math.Sqrt(m.Variance()) }

// plus combines the moments of two sets of numbers, without loss of precision
// when the variance is small against the mean (Chan, Golub, LeVeque 1979).
func (m Moments) plus(o Moments) Moments {
	if m.N == 0 || o.N == 0 {
		if m.N == 0 {
			return o
		}
		return m
	}
	n := m.N + o.N
	d := o.Mean - m.Mean
	share := float64(o.N) / float64(n)
	return Moments{n, m.Mean + d*share, m.m2 + o.m2 + d*d*float64(m.N)*share}
}

// Variance returns the mean, the variance and the standard deviation of the elements.
func Variance[N Number]() Agg[N, Moments, Moments] {
	return Agg[N, Moments, Moments]{
		Name:  "variance",
		New:   func() Moments { return Moments{} },
		Add:   func(m Moments, x N) (Moments, error) { return m.plus(Moments{1, float64(x), 0}), nil },
		AddN:  func(m Moments, x N, n int64) (Moments, error) { return m.plus(Moments{n, float64(x), 0}), nil },
		Merge: func(a, b Moments) (Moments, error) { return a.plus(b), nil },
		Result: func(m Moments) (Moments, error) {
			if m.N == 0 {
				m.Mean = math.NaN()
			}
			return m, nil
		},
	}
}

// Mean returns the mean of the elements, NaN if there are none.
func Mean[N Number]() Agg[N, Moments, float64] {
	g := Variance[N]()
	return Agg[N, Moments, float64]{Name: "mean", New: g.New, Add: g.Add, AddN: g.AddN, Merge: g.Merge,
		Result: func(m Moments) (float64, error) {
			m, err := g.Result(m)
			return m.Mean, err
		}}
}

// Min returns the least element; of equal ones the first.
func Min[T cmp.Ordered]() Agg[T, Maybe[T], Maybe[T]] {
	return best("min", func(a, b T) bool { return cmp.Less(a, b) })
}

// Max returns the greatest element; of equal ones the first.
func Max[T cmp.Ordered]() Agg[T, Maybe[T], Maybe[T]] {
	return best("max", func(a, b T) bool { return cmp.Less(b, a) })
}

// MinBy returns the least element by an order, as cmp.Compare is one; of equal
// ones the first. For the greatest, turn the order round.
func MinBy[T any](compare func(a, b T) int) Agg[T, Maybe[T], Maybe[T]] {
	return best("min", func(a, b T) bool { return compare(a, b) < 0 })
}

func best[T any](name string, better func(a, b T) bool) Agg[T, Maybe[T], Maybe[T]] {
	choose := func(a, b Maybe[T]) (Maybe[T], error) {
		if !a.OK || b.OK && better(b.Value, a.Value) {
			return b, nil
		}
		return a, nil
	}
	return Agg[T, Maybe[T], Maybe[T]]{
		Name: name,
		New:  func() Maybe[T] { return Maybe[T]{} },
		Add: func(m Maybe[T], x T) (Maybe[T], error) {
			if !m.OK || better(x, m.Value) {
				return Maybe[T]{x, true}, nil
			}
			return m, nil
		},
		AddN:   func(m Maybe[T], x T, _ int64) (Maybe[T], error) { return choose(m, Maybe[T]{x, true}) },
		Merge:  choose,
		Result: same[Maybe[T]],
	}
}

// First returns the first element.
func First[T any]() Agg[T, Maybe[T], Maybe[T]] {
	return Agg[T, Maybe[T], Maybe[T]]{
		Name: "first",
		New:  func() Maybe[T] { return Maybe[T]{} },
		Add: func(m Maybe[T], x T) (Maybe[T], error) {
			if !m.OK {
				m = Maybe[T]{x, true}
			}
			return m, ErrStop
		},
		Merge: func(a, b Maybe[T]) (Maybe[T], error) {
			if a.OK {
				return a, ErrStop
			}
			return b, nil
		},
		Result: same[Maybe[T]],
	}
}

// Last returns the last element.
func Last[T any]() Agg[T, Maybe[T], Maybe[T]] {
	return Agg[T, Maybe[T], Maybe[T]]{
		Name: "last",
		New:  func() Maybe[T] { return Maybe[T]{} },
		Add:  func(_ Maybe[T], x T) (Maybe[T], error) { return Maybe[T]{x, true}, nil },
		Merge: func(a, b Maybe[T]) (Maybe[T], error) {
			if b.OK {
				return b, nil
			}
			return a, nil
		},
		Result: same[Maybe[T]],
	}
}

// Any reports whether accept accepts an element. It reads no more than it must.
func Any[T any](accept func(T) bool) Agg[T, bool, bool] {
	return Agg[T, bool, bool]{
		Name: "any",
		New:  func() bool { return false },
		Add: func(found bool, x T) (bool, error) {
			if found || accept(x) {
				return true, ErrStop
			}
			return false, nil
		},
		AddN: func(found bool, x T, _ int64) (bool, error) {
			if found || accept(x) {
				return true, ErrStop
			}
			return false, nil
		},
		Merge: func(a, b bool) (bool, error) {
			if a || b {
				return true, ErrStop
			}
			return false, nil
		},
		Result: same[bool],
	}
}

// Every reports whether accept accepts all elements: true if there are none. It
// reads no more than it must.
func Every[T any](accept func(T) bool) Agg[T, bool, bool] {
	g := Any(func(x T) bool { return !accept(x) })
	g.Name = "every"
	g.Result = func(refused bool) (bool, error) { return !refused, nil }
	return g
}

// Into collects the elements in order. What they refer to stays in memory.
func Into[T any]() Agg[T, []T, []T] {
	return Agg[T, []T, []T]{
		Name:   "collect",
		New:    func() []T { return nil },
		Add:    func(s []T, x T) ([]T, error) { return append(s, x), nil },
		Merge:  func(a, b []T) ([]T, error) { return append(a, b...), nil },
		Result: same[[]T],
	}
}

// Frequencies returns how often each element occurs.
func Frequencies[K comparable]() Agg[K, map[K]int64, map[K]int64] {
	addN := func(m map[K]int64, k K, n int64) (map[K]int64, error) {
		if old, ok := m[k]; ok {
			m[k] = old + n
		} else {
			m[detach(k)] = n
		}
		return m, nil
	}
	return Agg[K, map[K]int64, map[K]int64]{
		Name: "frequencies",
		New:  func() map[K]int64 { return map[K]int64{} },
		Add:  func(m map[K]int64, k K) (map[K]int64, error) { return addN(m, k, 1) },
		AddN: addN,
		Merge: func(a, b map[K]int64) (map[K]int64, error) {
			for k, n := range b {
				a[k] += n
			}
			return a, nil
		},
		Result: same[map[K]int64],
	}
}

// Counted is an element and how often it occurs.
type Counted[K any] struct {
	Element K
	N       int64
}

// MostFrequent returns the k elements that occur most often, the most frequent
// first, and the least of those that occur equally often. It counts exactly, so
// it takes memory for each distinct element.
func MostFrequent[K cmp.Ordered](k int) Agg[K, map[K]int64, []Counted[K]] {
	g := Frequencies[K]()
	return Agg[K, map[K]int64, []Counted[K]]{Name: "most frequent", New: g.New, Add: g.Add, AddN: g.AddN, Merge: g.Merge,
		Result: func(m map[K]int64) ([]Counted[K], error) {
			out := make([]Counted[K], 0, len(m))
			for element, n := range m {
				out = append(out, Counted[K]{element, n})
			}
			slices.SortFunc(out, func(a, b Counted[K]) int {
				return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Element, b.Element))
			})
			return slices.Clip(out[:max(0, min(k, len(out)))]), nil
		}}
}

// Top returns the k greatest elements by an order, as cmp.Compare is one: the
// greatest first, and of equal ones those that came first. An element takes time
// logarithmic in k if it is not among them, and linear in k if it is.
func Top[T any](k int, compare func(a, b T) int) Agg[T, []T, []T] {
	add := func(top []T, x T) ([]T, error) {
		// x comes after all that are not less.
		at, _ := slices.BinarySearchFunc(top, x, func(t, x T) int {
			if compare(t, x) >= 0 {
				return -1
			}
			return 1
		})
		if at >= k {
			return top, nil
		}
		if len(top) == k {
			top = top[:k-1]
		}
		return slices.Insert(top, at, x), nil
	}
	return Agg[T, []T, []T]{
		Name: "top",
		New:  func() []T { return nil },
		Add:  add,
		Merge: func(a, b []T) ([]T, error) {
			for _, x := range b {
				a, _ = add(a, x) // never fails
			}
			return a, nil
		},
		Result: same[[]T],
	}
}

// Distinct returns the set of the elements. Its length is their number; for
// that alone, [Cardinality] takes less memory.
func Distinct[K comparable]() Agg[K, map[K]struct{}, map[K]struct{}] {
	add := func(m map[K]struct{}, k K) (map[K]struct{}, error) {
		if _, ok := m[k]; !ok {
			m[detach(k)] = struct{}{}
		}
		return m, nil
	}
	return Agg[K, map[K]struct{}, map[K]struct{}]{
		Name: "distinct",
		New:  func() map[K]struct{} { return map[K]struct{}{} },
		Add:  add,
		AddN: func(m map[K]struct{}, k K, _ int64) (map[K]struct{}, error) { return add(m, k) },
		Merge: func(a, b map[K]struct{}) (map[K]struct{}, error) {
			maps.Copy(a, b)
			return a, nil
		},
		Result: same[map[K]struct{}],
	}
}

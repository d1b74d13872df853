package folds

import (
	"errors"
	"iter"

	"github.com/jepsentest/go/histories"
)

// Agg (an aggregation) computes an R from a stream of elements of type T, by way
// of accumulators of type A. It is a [Fold] that does not say where the elements
// come from: [Over] makes a fold of it.
//
// The functions Count, Sum, Mean, … make aggregations, and [Map], [Filter],
// [Keep], [GroupBy], [Facet] and [Fuse] make them of others. They read from the
// outside in: the first function sees the elements first. So this is, for each f
// of the operations that succeeded, the quantiles of some function of them:
//
//	folds.Filter(succeeded, folds.GroupBy(f, folds.Map(latency, folds.Quantiles[time.Duration]())))
//
// Every aggregation keeps to the order of the elements and can be merged in any
// grouping.
type Agg[T, A, R any] struct {
	_ struct{}

	// Name appears in the name of the fold.
	Name string
	// New makes an accumulator. None is used by two goroutines at once.
	New func() A
	// Add takes one element. It may return [ErrStop]: no more are needed of
	// this chunk.
	Add func(acc A, element T) (A, error)
	// AddN, if not nil, does what n times Add would do. Only an aggregation
	// that does not depend on order can have it.
	AddN func(acc A, element T, n int64) (A, error)
	// Merge combines the accumulators of two stretches of the stream, of which
	// next follows total. It must be associative. It may return [ErrStop]: what
	// follows is not needed.
	Merge func(total, next A) (A, error)
	// Result makes the final value.
	Result func(acc A) (R, error)
}

// Over makes the fold that aggregates a field of the operations of a history.
// If the field has a Tally and the aggregation an AddN, a chunk takes one call
// for each distinct element, and else one for each operation.
func Over[T, A, R any](x Field[T], g Agg[T, A, R]) Fold[A, R] {
	f := Fold[A, R]{
		Name:        g.Name + " of " + x.Name,
		Columns:     x.Columns,
		New:         g.New,
		Merge:       g.Merge,
		Associative: true,
		Result:      g.Result,
	}
	if x.Tally != nil && g.AddN != nil {
		f.Chunk = func(acc A, c *histories.Chunk) (A, error) {
			var err error
			x.Tally(c, func(element T, n int64) {
				if err == nil {
					acc, err = g.AddN(acc, element, n)
				}
			})
			return acc, err
		}
		return f
	}
	f.Chunk = func(acc A, c *histories.Chunk) (A, error) {
		var err error
		for i := 0; i < c.Len() && err == nil; i++ {
			acc, err = g.Add(acc, x.At(c, i))
		}
		return acc, err
	}
	return f
}

// Map aggregates f of each element. f must be pure.
func Map[S, T, A, R any](f func(S) T, g Agg[T, A, R]) Agg[S, A, R] {
	out := Agg[S, A, R]{Name: g.Name, New: g.New, Merge: g.Merge, Result: g.Result}
	out.Add = func(acc A, s S) (A, error) { return g.Add(acc, f(s)) }
	if g.AddN != nil {
		out.AddN = func(acc A, s S, n int64) (A, error) { return g.AddN(acc, f(s), n) }
	}
	return out
}

// Filter aggregates the elements that accept accepts. accept must be pure.
func Filter[T, A, R any](accept func(T) bool, g Agg[T, A, R]) Agg[T, A, R] {
	return Keep(func(t T) (T, bool) { return t, accept(t) }, g)
}

// Keep is Map and Filter in one: it aggregates what f returns of an element
// together with true. f must be pure.
func Keep[S, T, A, R any](f func(S) (T, bool), g Agg[T, A, R]) Agg[S, A, R] {
	out := Agg[S, A, R]{Name: g.Name, New: g.New, Merge: g.Merge, Result: g.Result}
	out.Add = func(acc A, s S) (A, error) {
		if t, ok := f(s); ok {
			return g.Add(acc, t)
		}
		return acc, nil
	}
	if g.AddN != nil {
		out.AddN = func(acc A, s S, n int64) (A, error) {
			if t, ok := f(s); ok {
				return g.AddN(acc, t, n)
			}
			return acc, nil
		}
	}
	return out
}

// Cell is an accumulator that is one of several, and may have seen enough before
// the others have.
type Cell[A any] struct {
	acc  A
	full bool // no more is needed of this chunk
	over bool // nothing that follows is needed
}

func (c *Cell[A]) took(acc A, err error) error {
	c.acc = acc
	if errors.Is(err, ErrStop) {
		c.full, err = true, nil
	}
	return err
}

func add[T, A, R any](g *Agg[T, A, R], c *Cell[A], t T) error {
	if c.full {
		return nil
	}
	return c.took(g.Add(c.acc, t))
}

func addN[T, A, R any](g *Agg[T, A, R], c *Cell[A], t T, n int64) error {
	if c.full {
		return nil
	}
	return c.took(g.AddN(c.acc, t, n))
}

func merge[T, A, R any](g *Agg[T, A, R], total, next *Cell[A]) error {
	if total.over {
		return nil
	}
	acc, err := g.Merge(total.acc, next.acc)
	total.acc, total.over = acc, next.over
	if errors.Is(err, ErrStop) {
		total.over, err = true, nil
	}
	return err
}

// GroupBy aggregates the elements of each group on their own. key must be pure.
func GroupBy[K comparable, T, A, R any](key func(T) K, g Agg[T, A, R]) Agg[T, map[K]*Cell[A], map[K]R] {
	out := groups[K, T](g)
	out.Add = func(m map[K]*Cell[A], t T) (map[K]*Cell[A], error) {
		return m, add(&g, cellOf(m, key(t), g.New), t)
	}
	if g.AddN != nil {
		out.AddN = func(m map[K]*Cell[A], t T, n int64) (map[K]*Cell[A], error) {
			return m, addN(&g, cellOf(m, key(t), g.New), t, n)
		}
	}
	return out
}

// Facet is like [GroupBy] for elements of several parts: every part goes to the
// group of its own key. A transaction, say, falls into its micro-operations.
// parts must be pure.
func Facet[K comparable, S, T, A, R any](parts func(S) iter.Seq2[K, T], g Agg[T, A, R]) Agg[S, map[K]*Cell[A], map[K]R] {
	out := groups[K, S](g)
	out.Add = func(m map[K]*Cell[A], s S) (map[K]*Cell[A], error) {
		for k, t := range parts(s) {
			if err := add(&g, cellOf(m, k, g.New), t); err != nil {
				return m, err
			}
		}
		return m, nil
	}
	if g.AddN != nil {
		out.AddN = func(m map[K]*Cell[A], s S, n int64) (map[K]*Cell[A], error) {
			for k, t := range parts(s) {
				if err := addN(&g, cellOf(m, k, g.New), t, n); err != nil {
					return m, err
				}
			}
			return m, nil
		}
	}
	return out
}

func cellOf[K comparable, A any](m map[K]*Cell[A], k K, fresh func() A) *Cell[A] {
	c := m[k]
	if c == nil {
		c = &Cell[A]{acc: fresh()}
		m[detach(k)] = c
	}
	return c
}

// groups is what GroupBy and Facet have in common: all but Add and AddN.
func groups[K comparable, S, T, A, R any](g Agg[T, A, R]) Agg[S, map[K]*Cell[A], map[K]R] {
	return Agg[S, map[K]*Cell[A], map[K]R]{
		Name: g.Name + " by group",
		New:  func() map[K]*Cell[A] { return map[K]*Cell[A]{} },
		Merge: func(total, next map[K]*Cell[A]) (map[K]*Cell[A], error) {
			for k, c := range next {
				if have := total[k]; have == nil {
					total[k] = c
				} else if err := merge(&g, have, c); err != nil {
					return total, err
				}
			}
			return total, nil
		},
		Result: func(m map[K]*Cell[A]) (map[K]R, error) {
			out := make(map[K]R, len(m))
			for k, c := range m {
				r, err := g.Result(c.acc)
				if err != nil {
					return nil, err
				}
				out[k] = r
			}
			return out, nil
		},
	}
}

// Pair holds two things.
type Pair[A, B any] struct {
	First  A
	Second B
}

// Fuse makes one aggregation of two: its result has both results. Fuse again to
// have three. (Folds that run at the same time share passes anyway; Fuse is for
// several results within a group, and for those who want one fold.)
func Fuse[T, A, B, R, S any](g Agg[T, A, R], h Agg[T, B, S]) Agg[T, *Pair[Cell[A], Cell[B]], Pair[R, S]] {
	type both = *Pair[Cell[A], Cell[B]]
	full := func(p both, err error) (both, error) {
		if err == nil && p.First.full && p.Second.full {
			err = ErrStop
		}
		return p, err
	}
	out := Agg[T, both, Pair[R, S]]{
		Name: g.Name + ", " + h.Name,
		New: func() both {
			return &Pair[Cell[A], Cell[B]]{Cell[A]{acc: g.New()}, Cell[B]{acc: h.New()}}
		},
		Add: func(p both, t T) (both, error) {
			return full(p, errors.Join(add(&g, &p.First, t), add(&h, &p.Second, t)))
		},
		Merge: func(total, next both) (both, error) {
			err := errors.Join(merge(&g, &total.First, &next.First), merge(&h, &total.Second, &next.Second))
			if err == nil && total.First.over && total.Second.over {
				err = ErrStop
			}
			return total, err
		},
		Result: func(p both) (out Pair[R, S], err error) {
			if out.First, err = g.Result(p.First.acc); err != nil {
				return out, err
			}
			out.Second, err = h.Result(p.Second.acc)
			return out, err
		},
	}
	if g.AddN != nil && h.AddN != nil {
		out.AddN = func(p both, t T, n int64) (both, error) {
			return full(p, errors.Join(addN(&g, &p.First, t, n), addN(&h, &p.Second, t, n)))
		}
	}
	return out
}

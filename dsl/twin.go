package dsl

// A running generator is one of two twins that take turns: when one is asked,
// it writes its successor into the other, which is its own predecessor and
// needed by nobody any more. So running costs no allocation. What a test wrote
// down has no twin; its successors get one. See the package comment for what
// this asks of those who hold generators.

// twinned is a pointer to the state of a generator that knows its twin.
type twinned[T any] interface {
	*T
	twin() **T
}

// successor returns the place for the successor of cur: its twin, or a new pair
// if it has none or must not touch it. What never changes in the life of a
// generator is filled in; the caller sets all the rest.
func successor[T any, P twinned[T]](cur P, ctx Context) P {
	if t := *cur.twin(); t != nil && !ctx.ahead {
		return t
	}
	return pair[T](cur)
}

// running returns cur itself if it may be changed, because it runs already and
// only its latest state matters, and otherwise a copy that may be.
func running[T any, P twinned[T]](cur P, ctx Context) P {
	if *cur.twin() != nil && !ctx.ahead {
		return cur
	}
	return pair[T](cur)
}

// pair returns a copy of cur that has a twin.
func pair[T any, P twinned[T]](cur P) P {
	two := new([2]T)
	two[0], two[1] = *cur, *cur
	*P(&two[0]).twin(), *P(&two[1]).twin() = &two[1], &two[0]
	return &two[0]
}

package simulate

import "github.com/jepsentest/go/histories"

// landing is a completion on its way.
type landing struct {
	op     histories.Op
	silent bool // not recorded
	order  int  // of the invocation
}

func (l *landing) before(m *landing) bool {
	if l.op.Time != m.op.Time {
		return l.op.Time < m.op.Time
	}
	return l.order < m.order
}

// flight is a heap of completions: the earliest first, in the order of their
// invocations among equal times.
type flight []landing

func (f *flight) push(l landing) {
	h := append(*f, l)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	*f = h
}

func (f *flight) pop() landing {
	h := *f
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], landing{}
	h = h[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && h[down+1].before(&h[down]) {
			down++
		}
		if !h[down].before(&h[i]) {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	*f = h
	return first
}

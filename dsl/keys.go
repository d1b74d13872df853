package dsl

import (
	"sync/atomic"

	"github.com/jepsentest/go/histories"
)

// KeyTracker remembers the highest key that a workload has used, so that the
// end of a test can read them all. Keys are integers: those of the
// micro-operations of transactions, and of the tuples of independent keys. The
// zero value has seen none. Use one for each test.
//
//	var keys dsl.KeyTracker
//	g := dsl.Phases(
//		dsl.TimeLimit(time.Minute, keys.Watch(work)),
//		keys.Batches(8, func(from, to int64) dsl.Generator { … }))
type KeyTracker struct{ next atomic.Int64 }

// Watch lets the tracker see the operations of g.
func (k *KeyTracker) Watch(g Generator) Generator {
	return Watch(func(ev *histories.Op) {
		if ev.Type != histories.Invoke {
			return
		}
		if key, _, ok := ev.Value.Tuple(); ok {
			k.see(key)
		}
		mops, _ := ev.Value.Txn()
		for i := range mops {
			k.see(mops[i].Key)
		}
	}, g)
}

func (k *KeyTracker) see(key histories.Value) {
	if i, ok := key.Int(); ok && i >= k.next.Load() {
		k.next.Store(i + 1)
	}
}

// Highest returns the highest key so far, and false if there was none.
func (k *KeyTracker) Highest() (int64, bool) {
	n := k.next.Load()
	return n - 1, n > 0
}

// Batches runs what f makes of each batch of at most size keys, from ≤ key < to,
// one batch after the other: all keys from 0 to the highest that has been seen
// when it is first asked for an operation.
func (k *KeyTracker) Batches(size int64, f func(from, to int64) Generator) Generator {
	return Lazy(func() Generator {
		var gs []Generator
		end := k.next.Load()
		for from := int64(0); from < end; from += max(size, 1) {
			gs = append(gs, f(from, min(from+max(size, 1), end)))
		}
		return Seq(gs...)
	})
}

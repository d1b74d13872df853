package jepsentest

import (
	"runtime"
	"sync"
	"testing"

	"github.com/jepsentest/go/dsl"
)

// Whoever puts workers in, and however the taker sleeps in between, each comes
// out once for each time that it was put in.
func TestFinishedLosesNobody(t *testing.T) {
	const producers, rounds = 8, 5000
	f := newFinished()
	var wg sync.WaitGroup
	again := make([]chan struct{}, producers) // a worker is put in again when it has been taken
	for i := range producers {
		again[i] = make(chan struct{}, 1)
		w := &worker{thread: dsl.Thread(i)}
		wg.Go(func() {
			for range rounds {
				f.put(w)
				<-again[i]
			}
		})
	}
	counts := make([]int, producers)
	for total := 0; total < producers*rounds; {
		w := f.take()
		if w == nil {
			if f.sleep() {
				<-f.wake // hangs if a signal is lost
				f.awake()
			}
			continue
		}
		for w != nil {
			next := w.next
			counts[w.thread]++
			total++
			again[w.thread] <- struct{}{}
			w = next
		}
		if total%97 == 0 {
			runtime.Gosched()
		}
	}
	wg.Wait()
	for i, n := range counts {
		if n != rounds {
			t.Errorf("worker %d came out %d times, want %d", i, n, rounds)
		}
	}
}

func TestFinishedKeepsOrder(t *testing.T) {
	f := newFinished()
	for i := range 5 {
		f.put(&worker{thread: dsl.Thread(i)})
	}
	i := dsl.Thread(0)
	for w := f.take(); w != nil; w = w.next {
		if w.thread != i {
			t.Fatalf("worker %d came out at place %d", w.thread, i)
		}
		i++
	}
	if i != 5 || f.any() || f.take() != nil {
		t.Errorf("%d came out", i)
	}
}

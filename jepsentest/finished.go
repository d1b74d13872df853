package jepsentest

import "sync/atomic"

// finished collects the workers whose operations have ended, for the one
// scheduler. Putting a worker in never blocks, takes no lock, and costs a signal
// only if the scheduler sleeps.
type finished struct {
	newest   atomic.Pointer[worker] // a list of workers, the newest first, by their field next
	sleeping atomic.Bool
	wake     chan struct{} // room for one
}

func newFinished() *finished { return &finished{wake: make(chan struct{}, 1)} }

// put adds a worker. A worker is in the list once at most: it is put in for each
// operation, and gets the next one when it has been taken out.
func (f *finished) put(w *worker) {
	for {
		w.next = f.newest.Load()
		if f.newest.CompareAndSwap(w.next, w) {
			break
		}
	}
	if f.sleeping.Load() {
		select {
		case f.wake <- struct{}{}:
		default: // it has been woken already
		}
	}
}

// take takes all workers out, and returns them in the order in which they were
// put in, linked by next.
func (f *finished) take() *worker {
	var first *worker
	for w := f.newest.Swap(nil); w != nil; {
		older := w.next
		w.next = first
		first, w = w, older
	}
	return first
}

// any reports whether there is a worker to take.
func (f *finished) any() bool { return f.newest.Load() != nil }

// sleep announces that the scheduler is about to wait for wake, and reports
// whether it may: not if something has come in meanwhile. Whoever puts a worker
// in after that sees the announcement. awake ends it.
func (f *finished) sleep() bool {
	f.sleeping.Store(true)
	if f.any() {
		f.awake()
		return false
	}
	return true
}

func (f *finished) awake() {
	f.sleeping.Store(false)
	select {
	case <-f.wake: // left over
	default:
	}
}

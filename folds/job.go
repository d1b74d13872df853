package folds

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jepsentest/go/histories"
)

// job is a fold on its way through the chunks [from, n) of a history: what the
// Folder knows about it. How its accumulators are combined is up to its strategy.
type job struct {
	folder  *Folder
	name    string
	view    histories.History
	plain   bool              // the view is all of the source
	need    histories.Columns // of the source
	inOrder bool              // chunks are taken in order: a linear fold, or one whose Merge is not associative
	linear  bool              // and reduced one after the other
	strategy
	ctx     context.Context
	from, n int
	wake    chan struct{} // holds a token after wakeUp
	over    atomic.Bool   // settled, for those who do not hold the lock

	// The rest is guarded by Folder.mu.

	limit   int    // chunks from here on are not needed; at most n
	next    int    // if inOrder: the first chunk that was not taken
	missing bitset // if not: the chunks that were not taken
	left    int    // how many chunks below limit were not taken
	pos     int    // if inOrder: all chunks before are part of the result
	ready   []part // taken and read
	out     int    // taken, and not yet reduced
	busy    bool   // if linear: a worker has the accumulator

	calls     int           // calls of the fold's functions that are going on
	since     time.Duration // when the last of them began or ended
	patience  time.Duration // how long the others wait for it
	overtaken bool          // the others did not wait for a call that is going on
	without   int64         // chunks read for others only

	helpers int  // workers besides the caller of Run
	waiting bool // the caller waits
	settled bool // the result, or err, is there
	stopped bool // because of ErrStop
	err     error
}

// strategy is how a fold reduces and combines.
type strategy interface {
	// process reduces a part, and combines what can be combined. It begins at
	// the given time and returns when it ended. Folder.mu is held when it
	// returns, not before.
	process(p part, lane int, start time.Duration) (end time.Duration)
}

// drive takes the fold through the chunks [from, n) and returns when it is
// settled and none of its functions is running.
func (j *job) drive(ctx context.Context, from, n int) (err error) {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("fold %q: %w", j.name, err)
	}
	f := j.folder
	j.ctx, j.from, j.n, j.limit = ctx, from, n, n
	j.next, j.pos, j.left = from, from, n-from
	j.settled, j.err, j.without = false, nil, 0
	j.over.Store(false)
	if j.left <= 0 {
		return nil
	}
	if !j.inOrder {
		j.missing = newBitset(n, from)
	}
	if j.wake == nil {
		j.wake = make(chan struct{}, 1)
	}

	f.mu.Lock()
	j.patience = f.patience
	f.add(j)
	f.active++
	lane := f.lanes.take()
	returned := false
	// Deferred because a function of the fold may end this goroutine.
	defer func() {
		if v := recover(); v != nil {
			panic(v) // a bug in this package: do not wait for the lock
		}
		j.checkReturned(returned)
		for j.helpers > 0 {
			j.wait(0)
		}
		f.active--
		f.lanes.give(lane)
		f.kick()
		f.mu.Unlock()
		err = j.err
	}()
	j.work(lane, true)
	returned = true
	return nil
}

// work does what there is to do, until the fold is settled or, for a helper,
// there is nothing. f.mu is held, except during calls.
func (j *job) work(lane int, caller bool) {
	f := j.folder
	now := f.clock()
	for !j.settled {
		if err := j.ctx.Err(); err != nil {
			j.settle(fmt.Errorf("fold %q: %w", j.name, err))
			return
		}
		if p, ok := j.takeReady(); ok {
			j.help()
			j.calls++
			j.since = now
			f.mu.Unlock()
			now = j.process(p, lane, now)
			f.called(j, now)
			f.kick()
			continue
		}
		b, until := f.choose(j)
		switch {
		case b != nil:
			j.help()
			now = f.read(b, lane, now)
		case caller:
			j.wait(until)
			now = f.clock()
		default:
			return
		}
	}
}

// help starts another worker if there is a processor for it and something to do.
func (j *job) help() {
	f := j.folder
	if j.settled || f.active >= f.procs || j.helpers >= f.procs-1 || !j.hasReady() && !j.canRead() {
		return
	}
	f.active++
	j.helpers++
	lane := f.lanes.take()
	go func() {
		f.mu.Lock()
		returned := false
		defer func() {
			if v := recover(); v != nil {
				panic(v)
			}
			j.checkReturned(returned)
			f.active--
			f.lanes.give(lane)
			j.helpers--
			if j.settled && j.helpers == 0 && j.waiting {
				j.wakeUp()
			}
			f.kick()
			f.mu.Unlock()
		}()
		j.work(lane, false)
		returned = true
	}()
}

// checkReturned is called when work is over. Functions of the fold that panic
// are guarded; but one that ends its goroutine ends work without a return, and
// with Folder.mu released. It is held afterwards.
func (j *job) checkReturned(returned bool) {
	if !returned {
		j.folder.mu.Lock()
		j.settle(fmt.Errorf("fold %q: %w", j.name, ErrGoexit))
	}
}

// wait waits until the caller is woken, the context ends, or the given time has
// come if it is not zero. f.mu is held before and after.
func (j *job) wait(until time.Duration) {
	f := j.folder
	done := j.ctx.Done()
	if j.settled {
		done = nil // what is awaited is the end of the helpers
	}
	j.waiting = true
	f.active--
	f.kick()
	f.mu.Unlock()
	if until == 0 {
		select {
		case <-j.wake:
		case <-done:
		}
	} else {
		timer := time.NewTimer(until - f.clock())
		select {
		case <-j.wake:
		case <-done:
		case <-timer.C:
		}
		timer.Stop()
	}
	f.mu.Lock()
	if j.waiting {
		j.waiting = false
		f.active++
	}
}

// wakeUp ends the wait of the caller.
func (j *job) wakeUp() {
	j.waiting = false
	j.folder.active++
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// settle ends the fold: nothing that has not begun happens any more.
func (j *job) settle(err error) {
	if j.settled {
		return
	}
	j.settled, j.err, j.ready = true, err, nil
	j.over.Store(true)
	j.folder.remove(j)
	if j.waiting {
		j.wakeUp()
	}
	j.folder.kick()
}

// stop settles the fold because nothing that follows is needed.
func (j *job) stop() {
	j.stopped = true
	j.settle(nil)
}

// cut says that the chunks from number limit on are not needed.
func (j *job) cut(limit int) {
	if limit >= j.limit {
		return
	}
	j.limit = limit
	for k := len(j.ready) - 1; k >= 0; k-- {
		if j.ready[k].number >= limit {
			j.ready = slices.Delete(j.ready, k, k+1)
			j.out--
		}
	}
	if j.inOrder {
		j.left = max(0, limit-j.next)
	} else {
		j.left = j.missing.count(limit)
	}
}

// canRead reports whether there is a chunk that the fold can read now.
func (j *job) canRead() bool {
	i, _ := j.folder.plan(j)
	return i >= 0
}

// hasReady reports whether there is a chunk that can be reduced now.
func (j *job) hasReady() bool {
	if !j.linear {
		return len(j.ready) > 0
	}
	return !j.busy && j.headReady() >= 0
}

// headReady returns where in ready the chunk is that a linear fold needs next.
func (j *job) headReady() int {
	for k := range j.ready {
		if j.ready[k].number == j.pos {
			return k
		}
	}
	return -1
}

// takeReady takes the first chunk that can be reduced now.
func (j *job) takeReady() (part, bool) {
	if !j.hasReady() {
		return part{}, false
	}
	k := 0
	if j.linear {
		k = j.headReady()
		j.busy = true
	} else {
		for i := range j.ready {
			if j.ready[i].number < j.ready[k].number {
				k = i
			}
		}
	}
	p, last := j.ready[k], len(j.ready)-1
	j.ready[k], j.ready[last] = j.ready[last], part{}
	j.ready = j.ready[:last]
	return p, true
}

// receive is called when a chunk that was taken has been read.
func (j *job) receive(p part) {
	switch {
	case j.settled:
	case p.number >= j.limit:
		j.out--
	default:
		j.ready = append(j.ready, p)
	}
}

func (j *job) hasRoom() bool {
	return j.out < j.folder.depth() && !(j.inOrder && j.next-j.pos >= j.folder.window())
}

// willWant reports whether the fold has yet to take chunk i.
func (j *job) willWant(i int) bool {
	if i < j.from || i >= j.limit {
		return false
	}
	if j.inOrder {
		return j.next <= i
	}
	return j.missing.has(i)
}

// canTake reports whether the fold can take chunk i now.
func (j *job) canTake(i int) bool {
	return j.willWant(i) && !(j.inOrder && j.next != i) && j.hasRoom()
}

func (j *job) take(i int) {
	j.out++
	j.left--
	if j.inOrder {
		j.next++
	} else {
		j.missing.clear(i)
	}
}

// firstWanted returns the chunk that the fold would take next in a scan that
// stands at cursor, or -1 if it has taken all.
func (j *job) firstWanted(cursor int) int {
	switch {
	case j.left <= 0:
		return -1
	case j.inOrder:
		return j.next
	}
	if i := j.missing.first(max(cursor, j.from)); i >= 0 && i < j.limit {
		return i
	}
	return j.missing.first(j.from)
}

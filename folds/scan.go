package folds

import "time"

// This file decides which chunk is read next, and for whom. Two rules:
//
//  1. A chunk is not read without a fold that needs it too, if that one will
//     be able to take it soon. It may have no room (rule of memory), or it may
//     have to go through earlier chunks first (a newcomer that is catching up).
//  2. No fold waits for another without end: not for one that has been in the
//     same call for too long, and not when two whole histories have been read
//     for others since it began.
//
// Rule 1 makes a pass cheap; rule 2 keeps every fold alive, whatever the others'
// functions do.

// patience is how long folds wait at most for one that is in a call and has no room.
// At 16,384 operations a chunk, it lets a fold take a microsecond an operation
// before the others leave it behind.
const patience = 20 * time.Millisecond

// choose picks a chunk for a worker of j to read, and lets all folds that can
// take it do so. If it returns nil, j has to wait until something changes, or
// until the given time if that is not zero. f.mu is held.
func (f *Folder) choose(j *job) (b *batch, until time.Duration) {
	i, until := f.plan(j)
	if i < 0 {
		return nil, until
	}
	for _, b := range f.reads {
		if b.number == i && f.attach(j, b) {
			return nil, 0
		}
	}
	f.overtake(j, i)
	return f.take(i), 0
}

// plan returns which chunk a worker of j would read now, or -1: then until says
// when that may change by itself, if it is not zero.
func (f *Folder) plan(j *job) (i int, until time.Duration) {
	if len(f.reads) >= f.procs || !j.hasRoom() {
		return -1, 0
	}
	i = j.firstWanted(f.cursor)
	if i < 0 {
		return -1, 0
	}
	until, wait := f.mustWait(j, i)
	if !wait {
		return i, 0
	}
	if !j.inOrder {
		// What the others already have can be read without them.
		if first := j.firstWanted(j.from); first != i {
			if _, alsoWait := f.mustWait(j, first); !alsoWait {
				return first, 0
			}
		}
	}
	return -1, until
}

// mustWait reports whether another fold will want chunk i and cannot take it
// now. Until says when to ask again, even if nothing has changed till then: for
// a fold may begin a call, and never come back from it, without anybody hearing
// of it.
func (f *Folder) mustWait(j *job, i int) (until time.Duration, wait bool) {
	if j.without > 2*int64(j.n-j.from) {
		return 0, false
	}
	var now time.Duration
	for _, k := range f.jobs {
		if k == j || !k.willWant(i) || k.canTake(i) {
			continue
		}
		if now == 0 {
			now = f.clock()
		}
		again := now + max(k.patience, time.Millisecond)
		if k.calls > 0 {
			if again = k.since + k.patience; now >= again {
				continue // left behind
			}
		}
		if !wait || again < until {
			wait, until = true, again
		}
	}
	return until, wait
}

// overtake notes which folds are left behind when j reads i. The next time, the
// others wait half as long for such a fold: one that runs folds in its functions
// costs the others little.
func (f *Folder) overtake(j *job, i int) {
	if len(f.jobs) == 1 {
		return
	}
	for _, k := range f.jobs {
		if k != j && k.calls > 0 && k.willWant(i) && !k.canTake(i) {
			k.patience /= 2
			k.overtaken = true
		}
	}
}

// called notes that a call of a function of j has returned. If nobody gave up
// waiting for it, the others have more patience with j again.
func (f *Folder) called(j *job, now time.Duration) {
	j.calls--
	j.since = now
	if !j.overtaken {
		j.patience = min(f.patience, 2*j.patience+f.patience/16)
	}
	j.overtaken = false
}

// take makes the batch of chunk i for all that can take it.
func (f *Folder) take(i int) *batch {
	b := &batch{number: i, open: true}
	b.to = b.one[:0]
	for _, j := range f.jobs {
		if !j.canTake(i) {
			j.without++
			continue
		}
		j.take(i)
		b.to = append(b.to, j)
		b.columns |= j.need
		b.open = b.open && j.plain
	}
	f.cursor = i + 1
	f.reads = append(f.reads, b)
	return b
}

// attach lets j have a chunk that is being read, if it can take it and its
// columns are among those being read.
func (f *Folder) attach(j *job, b *batch) bool {
	if !b.open || !b.columns.Has(j.need) || !j.canTake(b.number) {
		return false
	}
	j.take(b.number)
	b.to = append(b.to, j)
	return true
}

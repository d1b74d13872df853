package folds

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jepsentest/go/histories"
)

// Folder is where folds over one history and its views meet. Nobody needs to
// make one: it is attached to the history (see [histories.History.Attached]), so
// it is found without a lookup and goes when the history goes.
//
// # How folds share a pass
//
// Every fold runs its own functions on goroutines of its own: on the one that
// called [Run], and on helpers as long as there are idle processors. What is
// shared is reading. A worker of a fold that needs a chunk picks one (scan.go),
// reads it with the columns of all folds that can take it now, and hands it to
// them; it then goes on with the functions of its own fold. So
//
//   - a fold whose function fails, blocks or runs another fold holds nothing
//     that others need: no slot of a pool, no place in a task graph. Nested folds
//     need no special treatment, at any depth;
//   - a fold joins and leaves between any two chunks, in constant time;
//   - when the last fold that needs a chunk leaves, nobody reads it.
//
// A fold that joins a pass half-way gets what it missed in one of two ways. If
// it is associative, it takes chunks as they come and merges neighbouring
// results; having come to the end, the scan goes on at the beginning. If order
// matters, it goes back to the beginning first, and the others, which have been
// there, wait until it has caught up. Either way the chunks it missed are read a
// second time, and no others.
//
// # What bounds memory
//
// A fold may have taken, and not yet reduced, at most [Folder.depth] chunks; an
// ordered one may be at most [window] results ahead of its merges. A chunk is
// read only if all the folds that still need it have room, so a pass goes at the
// pace of its slowest fold: but only as long as that fold makes progress. One
// that has been in the same call for longer than some milliseconds (perhaps
// because it waits for one of the others) is left behind, and reads later, for
// itself, what it could not take.
type Folder struct {
	src   histories.Source
	epoch time.Time // when the clock began

	tracer atomic.Pointer[tracer]

	mu       sync.Mutex
	procs    int           // how many workers, and reads at a time
	jobs     []*job        // folds that are not finished, oldest first
	reads    []*batch      // chunks that are being read
	active   int           // workers that are not waiting
	cursor   int           // the chunk after the one that was read last
	patience time.Duration // the most that folds have with each other: see patience
	lanes    lanes
	stats    Stats
}

// For returns the Folder of a history and all of its views.
func For(h histories.History) *Folder {
	return h.Attached(func() any {
		return &Folder{src: h.Source(), epoch: time.Now(), patience: patience}
	}).(*Folder)
}

// Stats says what a [Folder] has done so far.
type Stats struct {
	// Active is how many folds are running now, Folds how many were begun, and
	// Passes how often a first fold began while no other was running.
	Active, Folds, Passes int64
	// Read is how many chunks were read, Saved how many further folds they were
	// handed to: reads that were saved by sharing. Skipped is how often a
	// summary showed that a fold's view has nothing of a chunk.
	Read, Saved, Skipped int64
	// Decode, Reduce and Combine are the times spent in reading chunks (and
	// waiting for the disk), in Step, Chunk and Finish and the views' functions,
	// and in Merge, summed over all workers.
	Decode, Reduce, Combine time.Duration
}

// Stats returns what has been done so far.
func (f *Folder) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stats
	s.Active = int64(len(f.jobs))
	return s
}

// clock returns the time since the folder was made. Where one thing ends and the
// next begins, its reading is handed on: reading it is a good part of what the
// Folder itself does for a chunk.
func (f *Folder) clock() time.Duration { return time.Since(f.epoch) }

// depth is how many chunks a fold may have taken and not reduced: one for each
// worker, and as many again that were read ahead.
func (f *Folder) depth() int { return 2*f.procs + 2 }

// window is how many chunks an ordered fold may be ahead of its merges.
func (f *Folder) window() int { return 4*f.procs + 16 }

// add lets a fold take part. f.mu is held.
func (f *Folder) add(j *job) {
	f.procs = runtime.GOMAXPROCS(0)
	f.stats.Folds++
	if len(f.jobs) == 0 {
		f.stats.Passes++
		f.cursor = j.from
	}
	f.jobs = append(f.jobs, j)
	for _, b := range f.reads {
		f.attach(j, b)
	}
}

// remove drops a fold, so that nobody reads for it or waits for it. f.mu is held.
func (f *Folder) remove(j *job) {
	for i, k := range f.jobs {
		if k == j {
			copy(f.jobs[i:], f.jobs[i+1:])
			f.jobs[len(f.jobs)-1] = nil
			f.jobs = f.jobs[:len(f.jobs)-1]
			break
		}
	}
}

// kick lets workers go on for whom there is something to do now. It is called
// after every change that may be what somebody waits for. f.mu is held.
//
// The caller of a fold is woken for what was read for the fold, however many
// workers there are. To read, it is woken if there is an idle processor, or if
// the fold has nothing else to do: so every fold goes on, even if all other
// workers are blocked in functions of other folds.
func (f *Folder) kick() {
	for _, j := range f.jobs {
		idle := f.active < f.procs
		switch {
		case j.waiting:
			if j.hasReady() || (idle || j.out == 0) && j.canRead() {
				j.wakeUp()
			}
		case idle:
			j.help()
		}
	}
}

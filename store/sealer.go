package store

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// job is what the sealer does in one commit, in this order: it seals a chunk,
// if there is one, makes a change to the root, if there is one, and replies.
type job struct {
	chunk  chunkMaker
	change func(*packer, *root)
	reply  chan error
}

// chunkMaker appends the columns of a chunk and its description to p, and
// returns its entry for the directory: the open chunk of a Writer, or a chunk
// of another file.
type chunkMaker interface {
	finish(p *packer, number int) entry
}

// flight keeps account of the chunks that have been handed to the sealer and
// are not durable. Its purpose is the promise about crashes: however slow the
// disk, no chunk follows one that has been waiting for longer than the promise
// allows. So what a crash can cost is what was appended within that time, and
// one chunk.
type flight struct {
	limit time.Duration
	mu    sync.Mutex
	fewer sync.Cond
	since []time.Time // when the chunks were opened, oldest first
}

// enter waits until the oldest chunk under way is young enough.
func (f *flight) enter(opened time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.since) > 0 && time.Since(f.since[0]) > f.limit {
		f.fewer.Wait()
	}
	f.since = append(f.since, opened)
}

// leave reports that the n oldest chunks are durable, or given up.
func (f *flight) leave(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = append(f.since[:0], f.since[n:]...)
	f.fewer.Broadcast()
}

// seal is the goroutine that writes. It commits all jobs that are waiting at
// once, so that a slow disk costs fewer and larger commits, not more time.
// After an error it only empties the queue, so that nobody waits for ever.
func (w *Writer) seal() {
	defer close(w.done)
	var batch []job
	for j := range w.jobs {
		batch = append(batch[:0], j)
	more:
		for len(batch) < cap(w.jobs) {
			select {
			case j, ok := <-w.jobs:
				if !ok {
					break more
				}
				batch = append(batch, j)
			default:
				break more
			}
		}
		if w.failure.Load() == nil {
			if err := w.sealer.commit(batch); err != nil {
				err = fmt.Errorf("write history: %w; %d operations are safe in %s", err, w.Sealed(), w.path)
				w.failure.Store(&err)
			}
		}
		var err error
		if p := w.failure.Load(); p != nil {
			err = *p
		} else {
			w.sealed.Store(w.sealer.root.ops)
		}
		left := 0
		for _, j := range batch {
			if e, ok := j.chunk.(*chunkEncoder); ok {
				w.free <- e
				left++
			}
			if j.reply != nil {
				j.reply <- err
			}
		}
		w.flight.leave(left)
		clear(batch)
	}
}

// sealer commits to a log.
//
// Invariant: root is durable and in its slot; end is at or after the end of
// everything that it refers to.
type sealer struct {
	dev  device
	end  int64 // where the next block will stand
	root root
	dir  directory
	pack packer
}

// commit makes the jobs durable, all or none. After an error the log must not
// be written to any more: what the device did is unknown.
func (s *sealer) commit(jobs []job) error {
	p := &s.pack
	p.base, p.out, p.on = s.end, p.out[:0], true
	r := s.root // a copy, which counts only once it is durable
	grew := false
	for _, j := range jobs {
		if e := j.chunk; e != nil {
			d := e.finish(p, r.chunks)
			s.dir.add(p, r.chunks, d)
			r.chunks, r.ops, r.dense = r.chunks+1, d.end(), r.dense && d.dense
			grew = true
		}
		if j.change != nil {
			j.change(p, &r)
		}
	}
	if grew {
		r.dir, r.height = s.dir.flush(p)
	}
	r.seq++
	r.at = p.add(blockRoot, r.append(nil))

	if err := s.write(p.out, p.base); err != nil {
		return err
	}
	if err := s.dev.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	// Everything that the root refers to is durable: flip.
	if err := s.write(slot{r.seq, r.at}.encode(), slotOffset(r.seq)); err != nil {
		return err
	}
	if err := s.dev.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	s.root, s.end = r, p.end()
	return nil
}

func (s *sealer) write(b []byte, off int64) error {
	n, err := s.dev.WriteAt(b, off)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

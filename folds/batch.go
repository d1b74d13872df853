package folds

import (
	"sync"
	"time"

	"github.com/jepsentest/go/histories"
)

// batch is one reading of one chunk, for several folds.
type batch struct {
	number int

	// Guarded by Folder.mu until the chunk has been handed out.
	to      []*job
	one     [1]*job // to's memory when there is one fold
	columns histories.Columns
	open    bool // columns is final, and others with the same needs may join

	// Set by read, before the chunk is handed out.
	chunk *histories.Chunk
	err   error

	mu    sync.Mutex
	views []*seen
}

// seen is what a view has of the chunk of a batch: computed once, by the first
// fold over that view to come to it.
type seen struct {
	view  histories.History
	once  sync.Once
	chunk *histories.Chunk
	err   error
}

// part is a batch, in the hands of one fold. b is nil if the summary of the
// chunk showed that there is nothing in it for the fold; err says that the
// summary could not be read.
type part struct {
	number int
	b      *batch
	err    error
}

// read reads the chunk of b and hands it out. It begins at the given time and
// returns when it ended. f.mu is held before and after, but not during.
func (f *Folder) read(b *batch, lane int, start time.Duration) (end time.Duration) {
	end = start
	if !b.open {
		f.skip(b)
	}
	if len(b.to) > 0 {
		f.mu.Unlock()
		b.chunk, b.err = readChunk(f.src, b.number, b.columns)
		end = f.clock()
		f.traced(lane, "read", "", b.number, start, end)
		f.mu.Lock()
		f.stats.Decode += end - start
		f.stats.Read++
		f.stats.Saved += int64(len(b.to) - 1)
	}
	for k, other := range f.reads {
		if other == b {
			last := len(f.reads) - 1
			f.reads[k], f.reads[last] = f.reads[last], nil
			f.reads = f.reads[:last]
			break
		}
	}
	b.open = false
	for _, j := range b.to {
		j.receive(part{number: b.number, b: b})
	}
	b.to = nil
	f.kick()
	return end
}

func readChunk(src histories.Source, i int, columns histories.Columns) (c *histories.Chunk, err error) {
	returned := false
	defer guard(&returned, &err)
	c, err = src.ReadChunk(i, columns)
	returned = true
	return c, err
}

// skip drops from b the folds whose view, by the summary, has nothing of the chunk.
func (f *Folder) skip(b *batch) {
	asked := b.to
	may, errs := make([]bool, len(asked)), make([]error, len(asked))
	f.mu.Unlock()
	for k, j := range asked {
		may[k], errs[k] = mayHold(j, b.number)
	}
	f.mu.Lock()
	b.to, b.columns = nil, 0
	for k, j := range asked {
		if may[k] && errs[k] == nil {
			b.to = append(b.to, j)
			b.columns |= j.need
			continue
		}
		f.stats.Skipped++
		j.receive(part{number: b.number, err: errs[k]})
	}
	b.open = len(b.to) > 0
}

func mayHold(j *job, i int) (may bool, err error) {
	if j.plain {
		return true, nil
	}
	returned := false
	defer guard(&returned, &err)
	may, err = histories.MayHold(j.view, i)
	returned = true
	return may, err
}

// of returns what the view of j has of the chunk; nil if nothing.
func (p *part) of(j *job) (*histories.Chunk, error) {
	switch {
	case p.b == nil:
		return nil, p.err
	case p.b.err != nil:
		return nil, p.b.err
	case j.plain:
		return some(p.b.chunk), nil
	}
	s := p.b.seenBy(j.view)
	s.once.Do(func() { s.chunk, s.err = apply(s.view, p.b.chunk) })
	return some(s.chunk), s.err
}

func some(c *histories.Chunk) *histories.Chunk {
	if c == nil || c.Len() == 0 {
		return nil
	}
	return c
}

func (b *batch) seenBy(view histories.History) *seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.views {
		if s.view == view {
			return s
		}
	}
	s := &seen{view: view, err: ErrGoexit}
	b.views = append(b.views, s)
	return s
}

func apply(view histories.History, c *histories.Chunk) (out *histories.Chunk, err error) {
	returned := false
	defer guard(&returned, &err)
	out, err = view.Apply(c)
	returned = true
	return out, err
}

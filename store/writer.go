package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jepsentest/go/histories"
)

// Writer appends to a block log. There is at most one at a time for a file.
//
// Append is called by one goroutine; all other methods may be called by any.
type Writer struct {
	path   string
	opts   Options
	sealer *sealer
	done   chan struct{} // closed when the sealer has returned

	// free holds the encoders that are not in use. When it is empty and all
	// have been made, the disk is slower than the test, and Append waits.
	free chan *chunkEncoder
	jobs chan job

	flight  flight
	sealed  atomic.Int64
	failure atomic.Pointer[error] // the first error of the disk; sticky

	mu      sync.Mutex
	open    *chunkEncoder // the open chunk; nil if it has no operations
	made    int           // encoders made so far
	next    int64         // position of the next operation
	pairer  histories.Pairer
	timer   *time.Timer // seals an open chunk in time
	reopen  bool        // no operations may be appended
	closed  bool
	closing sync.Once
	result  error // what Close returns
}

// Create makes a new file at path, and commits the empty history. It fails
// with an error that is [fs.ErrExist] if there is a file already: histories are
// never overwritten; and with [ErrLocked] if it is being written.
func Create(path string, opts Options) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		if errors.Is(err, fs.ErrExist) && isLocked(path) {
			err = fmt.Errorf("%s: %w", path, ErrLocked)
		}
		return nil, fmt.Errorf("create history: %w", err)
	}
	if err := lock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("create history %s: %w", path, err)
	}
	w, err := createOn(fileDevice{f}, path, opts)
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		f.Close()
		os.Remove(path) // nothing has been stored in it
		return nil, err
	}
	return w, nil
}

// createOn begins a log on an empty device.
func createOn(dev device, path string, opts Options) (*Writer, error) {
	_, err := dev.WriteAt(newFileHeader(), 0)
	if err != nil {
		return nil, fmt.Errorf("create history: %w", err)
	}
	s := &sealer{dev: dev, end: firstBlock, root: root{dense: true, names: slices.Clone(opts.Names)}}
	if err := s.commit(nil); err != nil {
		return nil, fmt.Errorf("create history: %w", err)
	}
	return newWriter(s, path, opts), nil
}

// OpenAppend opens a file to add metadata and results to it: the re-analysis
// of a history. Its operations cannot be changed or added to. What was there
// before stays readable: see [File.Previous]. It fails with [ErrLocked] if the
// file is being written.
func OpenAppend(path string, opts Options) (*Writer, error) {
	f, err := openLocked(path)
	if err != nil {
		return nil, fmt.Errorf("reopen history: %w", err)
	}
	w, err := appendOn(fileDevice{f}, path, opts)
	if err != nil {
		f.Close()
		return nil, err
	}
	return w, nil
}

func appendOn(dev device, path string, opts Options) (*Writer, error) {
	size, r, _, _, err := openLog(dev)
	if err != nil {
		return nil, fmt.Errorf("reopen history %s: %w", path, withPath(err, path))
	}
	// What lies beyond the root, left by a commit that was cut short, is
	// neither used nor removed: should the root be an older one, because the
	// newest was damaged, then it is worth keeping.
	s := &sealer{dev: dev, end: max(size, firstBlock), root: *r}
	if r.seq > 0 {
		s.root.previous = r.at
	}
	w := newWriter(s, path, opts)
	w.reopen = true
	return w, nil
}

// openLocked opens an existing file for writing and locks it. It makes sure
// that the file was not replaced by another between the two.
func openLocked(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		if err := lock(f); err != nil {
			f.Close()
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		mine, err1 := f.Stat()
		now, err2 := os.Stat(path)
		if err := errors.Join(err1, err2); err != nil {
			f.Close()
			return nil, err
		}
		if os.SameFile(mine, now) {
			return f, nil
		}
		f.Close()
	}
}

// isLocked reports whether a writer has the file at path.
func isLocked(path string) bool {
	f, err := openLocked(path)
	if err == nil {
		f.Close()
	}
	return errors.Is(err, ErrLocked)
}

func newWriter(s *sealer, path string, opts Options) *Writer {
	opts = opts.withDefaults()
	w := &Writer{
		path: path, opts: opts, sealer: s,
		done: make(chan struct{}),
		free: make(chan *chunkEncoder, opts.Queue+1),
		jobs: make(chan job, opts.Queue+4),
		next: s.root.ops,
	}
	w.flight.limit, w.flight.fewer.L = opts.SealAfter, &w.flight.mu
	w.sealed.Store(s.root.ops)
	w.timer = time.AfterFunc(time.Hour, w.sealInTime)
	w.timer.Stop()
	go w.seal()
	return w
}

// Append records an operation: the next one of the history. Its index and time
// are the caller's. Nothing of op is kept, so its memory may be used again. It
// does not allocate in steady state, and waits only when the disk is slower
// than the test: by more than Options.Queue chunks, or by more than a full chunk
// once something has been waiting for the disk for Options.SealAfter.
//
// Entries that do not pair up are recorded as they are; [histories.Check] finds
// them. An operation that cannot be stored is refused with [ErrUnencodable],
// and the next may follow. Any other error is that of the disk, or [ErrClosed],
// and stays.
func (w *Writer) Append(op *histories.Op) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	if w.reopen {
		return fmt.Errorf("append to %s: %w", w.path, ErrReadOnlyHistory)
	}
	e := w.open
	if e == nil {
		e = w.encoder()
		e.reset(w.next)
	}
	if err := e.check(op); err != nil {
		if e.ops == 0 {
			w.open = nil
			w.free <- e
		}
		return fmt.Errorf("append operation %d: %w", w.next, err)
	}
	if e.ops == 0 {
		w.open = e
		e.opened = time.Now()
		w.timer.Reset(w.sealAge())
	}
	inv, ok, _ := w.pairer.Add(w.next, op.Process, op.Type, op.Phase)
	if !ok {
		inv = -1
	}
	e.add(op, inv)
	w.next++
	if e.full(w.opts.ChunkOps) {
		w.handOver(job{})
	}
	return nil
}

// usable returns the error that every call must report, if there is one.
func (w *Writer) usable() error {
	if err := w.failure.Load(); err != nil {
		return *err
	}
	if w.closed {
		return fmt.Errorf("write history %s: %w", w.path, ErrClosed)
	}
	return nil
}

// encoder returns one that is free, and waits for it if there is none.
func (w *Writer) encoder() *chunkEncoder {
	select {
	case e := <-w.free:
		return e
	default:
	}
	if w.made < cap(w.free) {
		w.made++
		e := &chunkEncoder{}
		e.values.codecs = w.opts.Codecs
		return e
	}
	return <-w.free
}

// handOver gives j, with the open chunk, if there is one, to the sealer.
func (w *Writer) handOver(j job) {
	if w.open != nil {
		w.flight.enter(w.open.opened)
		j.chunk, w.open = w.open, nil
	}
	w.jobs <- j
}

// sealAge is the age at which an open chunk is handed over. The rest of the
// time that was promised is for the disk.
func (w *Writer) sealAge() time.Duration { return w.opts.SealAfter * 3 / 4 }

// sealInTime runs when the timer of an open chunk fires. While Append is at
// work, or waits for the disk, it comes back later instead of waiting too.
func (w *Writer) sealInTime() {
	if !w.mu.TryLock() {
		w.timer.Reset(w.opts.SealAfter / 64)
		return
	}
	defer w.mu.Unlock()
	if w.closed || w.open == nil {
		return
	}
	// The timer may have been set for an earlier chunk.
	if rest := w.sealAge() - time.Since(w.open.opened); rest > 0 {
		w.timer.Reset(rest)
		return
	}
	w.handOver(job{})
}

// Flush seals the open chunk, and returns when everything that was appended
// before is durable.
func (w *Writer) Flush() error { return w.do(job{}) }

// SetMeta replaces the metadata of the test: a map, of any size, from names to
// values. It is durable when SetMeta returns.
func (w *Writer) SetMeta(meta histories.Value) error {
	data, err := w.encode(meta, "metadata")
	if err != nil {
		return err
	}
	return w.do(job{change: func(p *packer, r *root) { r.meta = p.add(blockMeta, data) }})
}

// SetNames replaces the names of the named processes.
func (w *Writer) SetNames(names histories.Names) error {
	names = slices.Clone(names)
	return w.do(job{change: func(_ *packer, r *root) { r.names = names }})
}

// SetResults replaces the results of the analysis: the verdict, which can be
// read without the rest, and any number of named results. They are durable
// when SetResults returns.
func (w *Writer) SetResults(verdict histories.Value, results ...histories.Field) error {
	index, err := w.encode(verdict, "verdict")
	if err != nil {
		return err
	}
	parts := make([][]byte, len(results))
	for i, f := range results {
		if parts[i], err = w.encode(f.Value, f.Name); err != nil {
			return err
		}
	}
	return w.do(job{change: func(p *packer, r *root) {
		out := resultsIndex{verdict: index}
		for i, f := range results {
			out.names = append(out.names, f.Name)
			out.at = append(out.at, p.add(blockResult, parts[i]))
		}
		r.results = p.add(blockResults, out.append(nil))
	}})
}

// encode returns the plain encoding of a value.
func (w *Writer) encode(v histories.Value, name string) ([]byte, error) {
	e := valueEncoder{codecs: w.opts.Codecs}
	if err := e.check(v, name); err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return e.appendTo(nil, v), nil
}

// do hands j to the sealer and waits until it is durable.
func (w *Writer) do(j job) error {
	j.reply = make(chan error, 1)
	w.mu.Lock()
	if err := w.usable(); err != nil {
		w.mu.Unlock()
		return err
	}
	w.handOver(j)
	w.mu.Unlock()
	return <-j.reply
}

// Sealed returns the number of operations that are durable.
func (w *Writer) Sealed() int64 { return w.sealed.Load() }

// Path returns the path with which the file was opened.
func (w *Writer) Path() string { return w.path }

// Close seals what was appended, marks the history as complete, and closes the
// file. It returns the first error of the disk, if there was one; what was
// sealed before it stays readable. Closing again returns the same.
func (w *Writer) Close() error {
	w.closing.Do(func() {
		var err error
		if w.reopen {
			w.mu.Lock()
			err = w.usable()
			w.mu.Unlock()
		} else {
			err = w.do(job{change: func(_ *packer, r *root) { r.complete = true }})
		}
		w.mu.Lock()
		w.closed = true
		w.timer.Stop()
		close(w.jobs)
		w.mu.Unlock()
		<-w.done
		if e := w.sealer.dev.Close(); err == nil && e != nil {
			err = fmt.Errorf("close history %s: %w", w.path, e)
		}
		w.result = err
	})
	return w.result
}

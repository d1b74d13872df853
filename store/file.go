package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/jepsentest/go/histories"
)

// File is a block log that is open for reading. It shows one state of the
// file: the newest when it was opened or refreshed. All methods may be called
// by several goroutines at once, also while another process writes the file.
type File struct {
	path   string
	opts   Options
	values valueOptions
	dev    io.ReaderAt
	close  func() error
	cache  *Cache
	ident  identity

	state    atomic.Pointer[state]
	lastLeaf atomic.Pointer[node] // where the last chunk was found
	source   *source
	history  histories.History
}

// state is what a File shows.
type state struct {
	root  *root
	size  int64 // of the file, which bounds all references
	older bool  // the newest root could not be used
}

// Open opens the file at path for reading. It reads a few blocks, whatever the
// size of the history. A file whose roots are damaged is searched for an older
// one, which takes time proportional to its size: see [File.Damaged].
//
// Errors are those of the file system, [ErrNotBlockLog], [ErrVersion] and
// [ErrCorrupt].
func Open(path string, opts Options) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	file, err := openOn(fileDevice{f}, path, opts)
	if err != nil {
		f.Close()
		return nil, err
	}
	return file, nil
}

// openOn opens the log on a device. The File closes it.
func openOn(dev device, path string, opts Options) (*File, error) {
	size, r, id, older, err := openLog(dev)
	if err != nil {
		return nil, fmt.Errorf("open history %s: %w", path, withPath(err, path))
	}
	f := &File{path: path, opts: opts, dev: dev, close: dev.Close, cache: opts.Cache, values: valueOptions{codecs: opts.Codecs}}
	if f.ident = (identity{id: id}); f.cache == nil {
		f.cache = sharedCache()
	}
	if file, ok := dev.(fileDevice); ok {
		f.ident = identify(id, file.File)
	}
	f.show(&state{r, size, older})
	return f, nil
}

// openLog reads the header and finds the root.
func openLog(dev device) (size int64, r *root, id fileID, older bool, err error) {
	h := make([]byte, headerLen)
	n, err := dev.ReadAt(h, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, nil, id, false, fmt.Errorf("read header: %w", err)
	}
	if id, err = parseFileHeader(h[:n]); err != nil {
		return 0, nil, id, false, err
	}
	// The size comes before the root, which may be newer then, and refer to
	// what is beyond; never the other way round. If no root was usable because
	// a writer replaced both while they were being read, they have changed.
	for {
		before := slotBytes(dev)
		if size, err = dev.Size(); err != nil {
			return 0, nil, id, false, fmt.Errorf("read size: %w", err)
		}
		r, older, err = currentRoot(dev, size)
		if err == nil && !older || slotBytes(dev) == before {
			break
		}
	}
	return size, r, id, older, err
}

func (f *File) show(st *state) {
	if f.source == nil {
		f.source = &source{f}
		f.history = histories.FromSource(f.source)
	}
	f.state.Store(st)
}

// withPath adds the path to an error about damage.
func withPath(err error, path string) error {
	var c *CorruptError
	if errors.As(err, &c) && c.Path == "" {
		c.Path = path
	}
	return err
}

// Refresh makes the File show what has been sealed since. The history that
// [File.History] returned grows with it; what it has handed out stays valid.
func (f *File) Refresh() error {
	size, r, id, older, err := openLog(f.asDevice())
	switch old := f.state.Load(); {
	case err != nil:
		return fmt.Errorf("refresh history %s: %w", f.path, withPath(err, f.path))
	case id != f.ident.id:
		return fmt.Errorf("refresh history %s: it is another file now", f.path)
	case r.seq > old.root.seq && r.chunks >= old.root.chunks:
		f.state.Store(&state{r, size, older})
	}
	return nil
}

func (f *File) asDevice() device { return f.dev.(device) }

// History returns the operations. Reading it reads the file as needed.
func (f *File) History() histories.History { return f.history }

// Len returns the number of operations.
func (f *File) Len() int64 { return f.state.Load().root.ops }

// Complete reports whether the writer closed the history. If not, the test is
// still running, or it crashed.
func (f *File) Complete() bool { return f.state.Load().root.complete }

// Damaged reports that the newest root cannot be used, so that an older state
// is shown: the last that could be found. [Verify] tells what is wrong. It is
// not set by a crash, only by damage to what had been durable.
func (f *File) Damaged() bool { return f.state.Load().older }

// Path returns the path with which the file was opened.
func (f *File) Path() string { return f.path }

// Close closes the file. What was read stays valid.
func (f *File) Close() error { return f.close() }

// Previous returns the file as it was before it was last reopened: with the
// results of the analysis before. ok is false if it never was. It is closed
// with f.
func (f *File) Previous() (previous *File, ok bool, err error) {
	st := f.state.Load()
	if st.root.previous.isZero() {
		return nil, false, nil
	}
	r, err := readRoot(f.dev, st.size, st.root.previous)
	if err != nil {
		return nil, false, fmt.Errorf("read history %s: %w", f.path, withPath(err, f.path))
	}
	p := &File{path: f.path, opts: f.opts, dev: f.dev, cache: f.cache, ident: f.ident, values: f.values}
	p.close = func() error { return nil }
	p.show(&state{r, st.size, st.older})
	return p, true, nil
}

// Meta returns the metadata, or nil if there is none. It reads one block.
func (f *File) Meta() (histories.Value, error) {
	st := f.state.Load()
	return f.value(st, st.root.meta, blockMeta, "metadata")
}

// value reads a block with one value.
func (f *File) value(st *state, at pointer, typ blockType, what string) (histories.Value, error) {
	if at.isZero() {
		return histories.Value{}, nil
	}
	data, err := readBlock(f.dev, st.size, at, typ)
	if err != nil {
		return histories.Value{}, fmt.Errorf("read history %s: %w", f.path, withPath(err, f.path))
	}
	v, err := decodePlain(data, f.values)
	if err != nil {
		return histories.Value{}, fmt.Errorf("read history %s: %w", f.path, withPath(corruptAt(err, at.off, what), f.path))
	}
	return v, nil
}

// Results are the results of an analysis. The verdict has been read; the
// others are read when they are asked for.
type Results struct {
	// Verdict is what [Writer.SetResults] was given first.
	Verdict histories.Value

	f     *File
	st    *state
	names []string
	at    []pointer
}

// Results returns the results of the last analysis, or nil if there was none.
// It reads one block.
func (f *File) Results() (*Results, error) {
	st := f.state.Load()
	at := st.root.results
	if at.isZero() {
		return nil, nil
	}
	r, err := readResults(f.dev, st.size, at, f.values)
	if err != nil {
		return nil, fmt.Errorf("read history %s: %w", f.path, withPath(err, f.path))
	}
	r.f, r.st = f, st
	return r, nil
}

// resultsIndex is the contents of a results block.
type resultsIndex struct {
	verdict []byte // a plain value
	names   []string
	at      []pointer
}

func (x *resultsIndex) append(b []byte) []byte {
	b = appendUint(b, uint64(len(x.verdict)))
	b = append(b, x.verdict...)
	b = appendUint(b, uint64(len(x.names)))
	for i := range x.names {
		b = appendPointer(appendStr(b, x.names[i]), x.at[i])
	}
	return b
}

func (x *resultsIndex) read(c *cursor) {
	x.verdict = c.bytes(c.count(1))
	for range c.count(3) {
		if c.bad != "" {
			return
		}
		x.names, x.at = append(x.names, c.str()), append(x.at, c.pointer())
	}
}

func readResults(dev io.ReaderAt, size int64, at pointer, opts valueOptions) (*Results, error) {
	data, err := readBlock(dev, size, at, blockResults)
	if err != nil {
		return nil, err
	}
	c := cursor{b: data}
	var index resultsIndex
	index.read(&c)
	r := &Results{names: index.names, at: index.at}
	if err = c.finish(); err == nil {
		r.Verdict, err = decodePlain(index.verdict, opts)
	}
	if err != nil {
		return nil, corruptAt(err, at.off, "results block")
	}
	return r, nil
}

// Names returns the names of the results, in the order in which they were given.
func (r *Results) Names() []string { return append([]string(nil), r.names...) }

// Get returns the result of this name, and false if there is none. It reads
// one block.
func (r *Results) Get(name string) (v histories.Value, ok bool, err error) {
	for i := range r.names {
		if r.names[i] == name {
			v, err := r.f.value(r.st, r.at[i], blockResult, "result "+name)
			return v, err == nil, err
		}
	}
	return histories.Value{}, false, nil
}

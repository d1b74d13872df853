package store

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// Compact rewrites a file without what is not in use any more (directory
// nodes and roots that have been replaced, the results of earlier analyses),
// compresses it harder, and puts it in the place of the old one in one step: a
// crash leaves one or the other. It returns the sizes before and after.
// Readers that have the old file open keep reading it. It fails with
// [ErrLocked] if the file is being written, and changes nothing if any part of
// the history is damaged (see [Recover]).
func Compact(path string) (before, after int64, err error) {
	in, err := openLocked(path)
	if err != nil {
		return 0, 0, fmt.Errorf("compact history: %w", err)
	}
	defer in.Close()
	before, after, err = compact(in, path)
	if err != nil {
		return 0, 0, fmt.Errorf("compact history %s: %w", path, withPath(err, path))
	}
	return before, after, nil
}

func compact(in *os.File, path string) (before, after int64, err error) {
	f, err := openOn(fileDevice{in}, path, Options{Cache: NewCache(1 << 20)})
	if err != nil {
		return 0, 0, err
	}
	if f.Damaged() {
		return 0, 0, &CorruptError{Offset: slotsAt, What: "root", Detail: "the newest cannot be used, and compacting an older one would lose operations"}
	}
	dir := filepath.Dir(path)
	out, err := os.CreateTemp(dir, "."+filepath.Base(path)+".compact-*")
	if err != nil {
		return 0, 0, err
	}
	defer os.Remove(out.Name()) // once it has been renamed, there is none
	defer out.Close()
	if info, err := in.Stat(); err == nil {
		if err := out.Chmod(info.Mode().Perm()); err != nil {
			return 0, 0, err
		}
	}
	if err := f.copyTo(fileDevice{out}); err != nil {
		return 0, 0, err
	}
	before = f.state.Load().size
	if after, err = (fileDevice{out}).Size(); err != nil {
		return 0, 0, err
	}
	if err := os.Rename(out.Name(), path); err != nil {
		return 0, 0, err
	}
	return before, after, syncDir(dir)
}

// compactBatch is how many chunks are committed at once.
const compactBatch = fanout

// copyTo writes everything in use to an empty device. Columns are not decoded,
// only compressed anew: their contents depend on positions, which stay.
func (f *File) copyTo(dev device) error {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	if err != nil {
		return err
	}
	if _, err := dev.WriteAt(newFileHeader(), 0); err != nil {
		return err
	}
	st := f.state.Load()
	old := st.root
	s := &sealer{dev: dev, end: firstBlock, root: root{dense: true, names: old.names}, pack: packer{zstd: z}}
	var batch []job
	for i := range old.chunks {
		e, err := f.entry(i)
		if err != nil {
			return err
		}
		c, err := f.copyChunk(i, e, st.size)
		if err != nil {
			return err
		}
		if batch = append(batch, job{chunk: c}); len(batch) == compactBatch {
			if err := s.commit(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	var failed error
	batch = append(batch, job{change: func(p *packer, r *root) {
		r.complete = old.complete
		failed = f.copyValues(p, r, st)
	}})
	if err := s.commit(batch); err != nil {
		return err
	}
	return failed
}

// chunkCopy is a chunk of another file, decompressed.
type chunkCopy struct {
	entry   entry
	columns [numColumns][]byte
}

func (f *File) copyChunk(i int, e *entry, size int64) (*chunkCopy, error) {
	c := &chunkCopy{entry: *e}
	for id := range numColumns {
		at, ok := e.column(id)
		if !ok {
			continue
		}
		data, err := readBlock(f.dev, size, at, blockColumn)
		if err != nil {
			return nil, fmt.Errorf("%v column of chunk %d: %w", id, i, err)
		}
		c.columns[id] = data
	}
	return c, nil
}

func (c *chunkCopy) finish(p *packer, number int) entry {
	e := c.entry
	e.off = p.end()
	for id, data := range c.columns {
		if e.lens[id] == 0 {
			continue
		}
		p.on = columnID(id) != colType && columnID(id) != colPhase
		e.lens[id] = p.add(blockColumn, data).len
	}
	p.on = true
	p.add(blockChunk, appendChunkBlock(nil, number, &e))
	return e
}

// copyValues copies metadata and results.
func (f *File) copyValues(p *packer, r *root, st *state) error {
	old := st.root
	if !old.meta.isZero() {
		data, err := readBlock(f.dev, st.size, old.meta, blockMeta)
		if err != nil {
			return err
		}
		r.meta = p.add(blockMeta, data)
	}
	if old.results.isZero() {
		return nil
	}
	data, err := readBlock(f.dev, st.size, old.results, blockResults)
	if err != nil {
		return err
	}
	c := cursor{b: data}
	var in resultsIndex
	in.read(&c)
	if err := c.finish(); err != nil {
		return corruptAt(err, old.results.off, "results block")
	}
	out := resultsIndex{verdict: in.verdict, names: in.names}
	for i, at := range in.at {
		part, err := readBlock(f.dev, st.size, at, blockResult)
		if err != nil {
			return fmt.Errorf("result %s: %w", in.names[i], err)
		}
		out.at = append(out.at, p.add(blockResult, part))
	}
	r.results = p.add(blockResults, out.append(nil))
	return nil
}

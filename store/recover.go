package store

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/jepsentest/go/histories"
)

// Recovered says what [Recover] found.
type Recovered struct {
	Ops    int64 // operations in the new file
	Chunks int   // chunks that were intact
	Lost   int   // chunks that were not, as far as their numbers show
	Meta   bool  // whether metadata was found
}

// Recover reads whatever is intact in the file src, however damaged it is, and
// writes it to a new file dst. It searches the whole log for chunks, and does
// not depend on the header, the roots, or the directory. Every operation keeps
// its index; where chunks are lost, the indices have gaps, and operations lose
// their partners. Custom values are copied as they are. It calls report for
// everything that could not be used; report may be nil.
func Recover(src, dst string, report func(*CorruptError)) (Recovered, error) {
	var rec Recovered
	in, err := os.Open(src)
	if err != nil {
		return rec, fmt.Errorf("recover history: %w", err)
	}
	defer in.Close()
	if report == nil {
		report = func(*CorruptError) {}
	}
	s := salvage{dev: fileDevice{in}, path: src, report: report, chunks: make(map[int]entry)}
	if s.size, err = s.dev.Size(); err == nil {
		err = s.search()
	}
	if err != nil {
		return rec, fmt.Errorf("recover history %s: %w", src, err)
	}
	w, err := Create(dst, Options{Names: s.names()})
	if err != nil {
		return rec, fmt.Errorf("recover history %s: %w", src, err)
	}
	err = s.copyTo(w, &rec)
	if e := w.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(dst)
		return rec, fmt.Errorf("recover history %s: %w", src, err)
	}
	return rec, nil
}

// salvage is what is left of a damaged file.
type salvage struct {
	dev    device
	path   string
	size   int64
	report func(*CorruptError)
	chunks map[int]entry // by number
	root   *root         // the newest intact one
	meta   pointer       // the newest intact ones
	result pointer
}

func (s *salvage) note(err error) {
	var c *CorruptError
	if errors.As(err, &c) {
		c.Path = s.path
		s.report(c)
	}
}

// search reads the log from its beginning. Where a description of a chunk is
// damaged, the directory may still have a copy.
func (s *salvage) search() error {
	var nodes []pointer
	err := scanLog(s.dev, s.size, func(at pointer, h header, data []byte) error {
		switch h.typ {
		case blockChunk:
			raw, err := decompress(nil, h, data)
			if err != nil {
				return nil // the checksum was right, and yet: not a chunk of ours
			}
			if number, e, err := readChunkBlock(raw); err == nil {
				s.chunks[number] = e
			}
		case blockNode:
			nodes = append(nodes, at)
		case blockRoot:
			if r, err := readRoot(s.dev, s.size, at); err == nil && (s.root == nil || r.seq >= s.root.seq) {
				s.root = r
			}
		case blockMeta:
			s.meta = at
		case blockResults:
			s.result = at
		}
		return nil
	}, func(from, to int64, why error) {
		s.note(corruptAt(why, from, fmt.Sprintf("%d bytes of the log", to-from)))
	})
	if err != nil {
		return err
	}
	for _, at := range nodes {
		data, err := readBlock(s.dev, s.size, at, blockNode)
		if err != nil {
			continue
		}
		n, err := parseNode(data)
		if err != nil {
			continue
		}
		for i, e := range n.entries {
			if _, ok := s.chunks[n.chunk0+i]; !ok {
				s.chunks[n.chunk0+i] = e
			}
		}
	}
	return nil
}

func (s *salvage) names() histories.Names {
	if s.root == nil {
		return nil
	}
	return s.root.names
}

func (s *salvage) copyTo(w *Writer, rec *Recovered) error {
	f := &File{path: s.path, dev: s.dev, cache: NewCache(1), values: valueOptions{keepRaw: true}}
	f.show(&state{root: &root{}, size: s.size})
	numbers := make([]int, 0, len(s.chunks))
	for n := range s.chunks {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	next := 0
	for _, n := range numbers {
		e := s.chunks[n]
		rec.Lost += n - next
		next = n + 1
		d := new(decoded)
		d.Number, d.First = n, e.first
		d.SetLen(e.n)
		if err := f.decode(d, &e, histories.AllColumns, s.size); err != nil {
			s.note(err)
			rec.Lost++
			continue
		}
		rec.Chunks++
		for i := range d.Len() {
			op := d.Op(i)
			if err := w.Append(&op); err != nil {
				return err
			}
			rec.Ops++
		}
	}
	return s.copyValues(f, w, rec)
}

// copyValues copies metadata and results: those of the newest root, or else
// the newest that there are.
func (s *salvage) copyValues(f *File, w *Writer, rec *Recovered) error {
	st := &state{root: &root{meta: s.meta, results: s.result}, size: s.size}
	if s.root != nil {
		st.root = s.root
	}
	f.show(st)
	meta, err := f.Meta()
	s.note(err)
	if err == nil && !meta.IsNil() {
		rec.Meta = true
		if err := w.SetMeta(meta); err != nil {
			return err
		}
	}
	res, err := f.Results()
	s.note(err)
	if err != nil || res == nil {
		return nil
	}
	var fields []histories.Field
	for _, name := range res.names {
		v, ok, err := res.Get(name)
		s.note(err)
		if ok {
			fields = append(fields, histories.Field{Name: name, Value: v})
		}
	}
	return w.SetResults(res.Verdict, fields...)
}

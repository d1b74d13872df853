package store

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/jepsentest/go/histories"
)

// Verify reads a whole file and checks every checksum, every reference, and
// that what the directory says of a chunk is true. It calls report for each
// thing that is wrong, and returns how many there were. What a commit that was
// cut short left behind is not wrong. The error is one of the file system, or
// [ErrNotBlockLog] or [ErrVersion].
//
// The file may be one that is being written: its state at the beginning is
// verified.
func Verify(path string, opts Options, report func(*CorruptError)) (problems int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("verify history: %w", err)
	}
	defer f.Close()
	v := verifier{dev: fileDevice{f}, path: path, opts: opts, report: report}
	if err := v.run(); err != nil {
		return v.problems, fmt.Errorf("verify history %s: %w", path, err)
	}
	return v.problems, nil
}

type verifier struct {
	dev      device
	path     string
	opts     Options
	report   func(*CorruptError)
	problems int
	seen     []int64 // where damage has been reported
}

// note reports err if it is about damage; any other error ends the verification.
func (v *verifier) note(err error) error {
	var c *CorruptError
	if !errors.As(err, &c) {
		return err
	}
	c.Path = v.path
	v.problems++
	v.seen = append(v.seen, c.Offset)
	v.report(c)
	return nil
}

func (v *verifier) run() error {
	h := make([]byte, headerLen)
	n, _ := v.dev.ReadAt(h, 0)
	if _, err := parseFileHeader(h[:n]); err != nil {
		if err := v.note(err); err != nil {
			return err
		}
	}
	slots, bad, err := readSlots(v.dev)
	if err != nil {
		return err
	}
	size, err := v.dev.Size()
	if err != nil {
		return err
	}
	r, _, err := currentRoot(v.dev, size)
	if err != nil {
		if err := v.note(err); err != nil {
			return err
		}
		r = &root{}
	}
	end := r.at.off + int64(r.at.len)
	for _, s := range slots {
		end = max(end, s.at.off+int64(s.at.len))
		if _, err := readRoot(v.dev, size, s.at); err != nil {
			if err := v.note(err); err != nil {
				return err
			}
		}
	}
	for i, err := range bad {
		// A file with one commit has used one slot, and one with none none.
		if err == nil || err == errUnused && r.seq < 2 {
			continue
		}
		v.note(&CorruptError{Offset: slotsAt + int64(i)*sector, What: fmt.Sprintf("root slot %d", i), Detail: err.Error()})
	}
	if err := v.state(r, size); err != nil {
		return err
	}
	return v.log(end, size)
}

// state verifies everything that a root refers to, and the roots of the
// sessions before.
func (v *verifier) state(r *root, size int64) error {
	f := &File{path: v.path, opts: v.opts, dev: v.dev, cache: NewCache(1 << 20)}
	f.values = valueOptions{codecs: v.opts.Codecs}
	f.show(&state{root: r, size: size})
	for i := range r.chunks {
		e, err := f.entry(i)
		if err == nil {
			err = v.chunk(f, i, e, size)
		} else {
			// One node describes many chunks; it is reported once.
			var c *CorruptError
			if errors.As(err, &c) && slices.Contains(v.seen, c.Offset) {
				continue
			}
		}
		if err != nil {
			if err := v.note(err); err != nil {
				return err
			}
		}
	}
	for sessions := 0; ; sessions++ {
		if err := v.values(f, size); err != nil {
			return err
		}
		p, ok, err := f.Previous()
		if err != nil {
			return v.note(err)
		}
		// Roots refer backwards only, so this ends; a damaged file is not trusted.
		if !ok || p.state.Load().root.at.off >= r.at.off && r.at.off > 0 {
			return nil
		}
		f, r = p, p.state.Load().root
	}
}

// values verifies metadata and results.
func (v *verifier) values(f *File, size int64) error {
	if _, err := f.Meta(); err != nil {
		if err := v.note(err); err != nil {
			return err
		}
	}
	res, err := f.Results()
	if err != nil {
		return v.note(err)
	}
	if res == nil {
		return nil
	}
	for _, name := range res.names {
		if _, _, err := res.Get(name); err != nil {
			if err := v.note(err); err != nil {
				return err
			}
		}
	}
	return nil
}

// chunk decodes every column on its own, so that each that is damaged is named,
// and compares the result with the entry. The error is the last one.
func (v *verifier) chunk(f *File, i int, e *entry, size int64) error {
	d := new(decoded)
	d.Number, d.First = i, e.first
	d.SetLen(e.n)
	var failed error
	for _, c := range columnOf {
		if c.column == colWho && !d.Have.Has(histories.ColType) {
			continue
		}
		if err := f.decode(d, e, c.field, size); err != nil {
			if failed != nil {
				if err := v.note(failed); err != nil {
					return err
				}
			}
			failed = err
		}
	}
	p := pointer{e.off + e.size(), 0}
	if failed == nil {
		failed = v.description(i, e, p.off, size)
	}
	if failed != nil || d.Have != histories.AllColumns {
		return failed
	}
	s := histories.Summarize(&d.Chunk)
	if s.Types != e.types || s.MinTime != e.minTime || s.MaxTime != e.maxTime ||
		s.MinProc != e.minProc || s.MaxProc != e.maxProc || !e.manyFs && !slices.Equal(s.Fs, e.fs) ||
		d.IndexAt(0) != e.firstIndex || len(d.links) > 0 && d.links[0].inv != e.reach || len(d.links) == 0 && e.reach != e.first {
		return &CorruptError{Offset: e.off, What: fmt.Sprintf("chunk %d", i), Detail: "the directory describes it wrongly"}
	}
	return nil
}

// description verifies the block after the columns.
func (v *verifier) description(i int, e *entry, off, size int64) error {
	what := fmt.Sprintf("description of chunk %d", i)
	var buf []byte
	h, block, err := readAny(v.dev, size, off, &buf)
	if err == nil && h.typ != blockChunk {
		err = fmt.Errorf("a %v block", h.typ)
	}
	var data []byte
	if err == nil {
		data, err = decompress(nil, h, block[blockHeader:])
	}
	if err != nil {
		return corruptAt(err, off, what)
	}
	number, got, err := readChunkBlock(data)
	if err != nil {
		return corruptAt(err, off, what)
	}
	if number != i || string(got.append(nil)) != string(e.append(nil)) {
		return &CorruptError{Offset: off, What: what, Detail: "differs from the directory"}
	}
	return nil
}

// log looks for damage in what no state refers to any more. What lies beyond
// the last root that a slot refers to is a commit that was cut short.
func (v *verifier) log(end, size int64) error {
	return scanLog(v.dev, size,
		func(pointer, header, []byte) error { return nil },
		func(from, to int64, why error) {
			hit := func(off int64) bool { return off >= from && off < to }
			if from < end && !slices.ContainsFunc(v.seen, hit) {
				v.note(corruptAt(why, from, fmt.Sprintf("%d bytes of the log", to-from)))
			}
		})
}

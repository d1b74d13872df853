package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/jepsentest/go/histories"
)

func errorSays(err error, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			return false
		}
	}
	return true
}

// smallFile is a file with a bit of everything.
func smallFile(t testing.TB) ([]byte, []histories.Op) {
	ops := listAppend(120)
	for i := range ops {
		if i%10 == 3 {
			ops[i].Extra = []histories.Field{{Name: "node", Value: histories.String("n1")}}
		}
		if i%50 == 7 {
			ops[i] = histories.Op{Index: ops[i].Index, Time: ops[i].Time, Process: histories.Nemesis,
				Type: histories.Info, Phase: histories.Begin, F: "kill", Value: histories.Keyword("all")}
		}
	}
	dev := &memDevice{}
	w, err := createOn(dev, "mem", Options{ChunkOps: 32, Names: histories.Names{"nemesis"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range ops {
		if err := w.Append(&ops[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.SetMeta(histories.MapOf(histories.Entry{Key: histories.Keyword("name"), Value: histories.String("t")})); err != nil {
		t.Fatal(err)
	}
	if err := w.SetResults(histories.Bool(true), histories.Field{Name: "stats", Value: histories.Ints(1, 2, 3)}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dev.now, ops
}

// allocated returns the bytes allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// readDamaged reads a damaged file every way there is. It must give an error
// or a prefix of what was written, and not take more than 64 MiB.
func readDamaged(t *testing.T, b []byte, ops []histories.Op, what string, at int) {
	t.Helper()
	got, _, err := readAll(memFile(b))
	if err != nil {
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotBlockLog) && !errors.Is(err, ErrVersion) {
			t.Fatalf("%s %d: an error of another kind: %v", what, at, err)
		}
		return
	}
	samePrefix(t, got, ops)
}

func TestEveryByteFlipped(t *testing.T) {
	b, ops := smallFile(t)
	before := allocated()
	n := 0
	for i := range b {
		if i >= headerLen && i < slotsAt || i >= slotsAt+slotLen && i < slotsAt+sector || i >= slotsAt+sector+slotLen && i < firstBlock {
			continue // padding
		}
		for _, bit := range []byte{1, 0x80, 0xff} {
			b[i] ^= bit
			readDamaged(t, b, ops, "byte", i)
			b[i] ^= bit
			n++
		}
	}
	if each := (allocated() - before) / uint64(n); each > 8<<20 {
		t.Fatalf("%d bytes allocated each time", each)
	}
}

func TestEveryPrefix(t *testing.T) {
	b, ops := smallFile(t)
	for i := range b {
		if i > headerLen+8 && i < firstBlock && i%512 != 0 {
			continue
		}
		readDamaged(t, b[:i:i], ops, "prefix", i)
	}
}

// With both slots destroyed, the log is searched for the newest root.
func TestWithoutSlots(t *testing.T) {
	b, ops := smallFile(t)
	clear(b[slotsAt:firstBlock])
	f, err := openOn(memFile(b), "mem", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !f.Damaged() || !f.Complete() {
		t.Fatal(f.Damaged(), f.Complete())
	}
	got, err := histories.Collect(f.History())
	if err != nil || len(got) != len(ops) {
		t.Fatal(len(got), err)
	}
	samePrefix(t, got, ops)
}

// repair makes the checksums of a damaged file right again, as a hostile
// author would, so that what is behind them is tested.
func repair(b []byte) {
	if len(b) < firstBlock {
		return
	}
	binary.LittleEndian.PutUint32(b[32:], crcOf(b[:32]))
	for i := range 2 {
		s := b[slotsAt+i*sector:]
		if !allZero(s[:slotLen]) {
			binary.LittleEndian.PutUint32(s[20:], crcOf(s[:20]))
		}
	}
	for off := firstBlock; off+blockHeader <= len(b); {
		h, err := parseHeader(b[off:])
		if err != nil || off+blockHeader+h.stored > len(b) {
			return
		}
		data := b[off+blockHeader : off+blockHeader+h.stored]
		binary.LittleEndian.PutUint32(b[off+16:], checksum(int64(off), b[off:], data))
		off += blockHeader + h.stored
	}
}

// exercise reads a file in every way, for damage with right checksums: it may
// say anything, but must return, without a panic and within bounds.
func exercise(b []byte) {
	f, err := openOn(memFile(b), "mem", Options{Cache: NewCache(1 << 20)})
	if err != nil {
		return
	}
	f.Meta()
	if r, err := f.Results(); err == nil && r != nil {
		for _, n := range r.Names() {
			r.Get(n)
		}
	}
	f.Previous()
	h := f.History()
	src := h.Source()
	n := min(src.NumChunks(), 40)
	for i := range n {
		src.Span(i)
		src.Summary(i)
		if c, err := src.ReadChunk(i, histories.AllColumns); err == nil {
			for j := range c.Len() {
				_ = c.Op(j).String()
			}
		}
	}
	if total, _ := h.Len(); total > 0 {
		for _, pos := range []int64{0, total / 2, total - 1} {
			h.Nth(pos)
			h.Get(pos)
			src.Partner(pos)
			src.Locate(pos)
		}
	}
}

func TestEveryByteForged(t *testing.T) {
	orig, _ := smallFile(t)
	values := []byte{0, 1, 0x7f, 0x80, 0xff}
	if RaceEnabled {
		values = []byte{0, 0xff} // ten times slower; nothing here is concurrent
	}
	for i := firstBlock; i < len(orig); i++ {
		for _, x := range values {
			b := bytes.Clone(orig)
			if b[i] == x {
				continue
			}
			b[i] = x
			repair(b)
			before := allocated()
			exercise(b)
			if n := allocated() - before; n > 64<<20 {
				t.Fatalf("byte %d = %#x: %d bytes allocated", i, x, n)
			}
		}
	}
}

func FuzzReader(f *testing.F) {
	b, _ := smallFile(f)
	f.Add(b[firstBlock:])
	f.Add(b[firstBlock : firstBlock+500])
	f.Fuzz(func(t *testing.T, log []byte) {
		// The fuzzer supplies the log; the rest is made to fit.
		b := append(make([]byte, firstBlock), log...)
		copy(b, newFileHeader())
		repair(b)
		exercise(b)
	})
}

func FuzzValue(f *testing.F) {
	e := valueEncoder{}
	for _, v := range someValues() {
		if e.check(v, "") == nil {
			f.Add(e.appendTo(nil, v))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := decodePlain(data, valueOptions{})
		if err != nil {
			return
		}
		var e valueEncoder
		if err := e.check(v, "value"); err != nil {
			return
		}
		again, err := decodePlain(e.appendTo(nil, v), valueOptions{})
		if err != nil || !again.Equal(v) {
			t.Fatalf("%v became %v, %v", v, again, err)
		}
	})
}

func FuzzColumn(f *testing.F) {
	var e chunkEncoder
	e.reset(0)
	ops := listAppend(60)
	for i := range ops {
		e.add(&ops[i], -1)
	}
	f.Add(e.values.finish(), 60)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		var d valueDecoder
		out := make([]histories.Value, min(max(n, 0), 1000))
		if d.column(data, out) == nil {
			for _, v := range out {
				_ = v.String()
			}
		}
	})
}

func someValues() []histories.Value {
	return []histories.Value{
		histories.Nil(), histories.Bool(true), histories.Int(-5), histories.Int(1 << 60), histories.Float(2.5),
		histories.String("text"), histories.Keyword("kw"), histories.Bytes([]byte{1, 2}),
		histories.List(histories.Int(1), histories.String("x")), histories.Ints(5, 6, 7), histories.Ints(),
		histories.MapOf(histories.Entry{Key: histories.Keyword("a"), Value: histories.Nil()}),
		histories.SetOf(histories.Int(3)), histories.Tuple(histories.Int(1), histories.Ints(1, 2)),
		histories.Tagged("inst", histories.String("2020")),
		histories.Txn(histories.Read(histories.Int(1)), histories.Write(histories.String("k"), histories.Int(4))),
	}
}

// Verify names what is damaged, for every byte of the file that is in use;
// Recover saves all chunks but the one that is hit.
func TestVerifyAndRecover(t *testing.T) {
	orig, ops := smallFile(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "h.jt")
	write := func(b []byte) {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(orig)
	if n, err := Verify(path, Options{}, func(c *CorruptError) { t.Error(c) }); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	named := make(map[string]bool)
	step := 11
	if RaceEnabled {
		step = 47
	}
	for i := firstBlock; i < len(orig); i += step {
		b := bytes.Clone(orig)
		b[i] ^= 0x55
		write(b)
		n, err := Verify(path, Options{}, func(c *CorruptError) {
			if c.Path != path || c.What == "" || c.Detail == "" {
				t.Errorf("byte %d: %v", i, c)
			}
			named[strings.SplitN(c.What, " ", 2)[0]] = true
		})
		if err != nil || n == 0 {
			t.Fatalf("byte %d: %d problems, %v", i, n, err)
		}
		dst := filepath.Join(dir, "r.jt")
		rec, err := Recover(path, dst, nil)
		if err != nil {
			t.Fatalf("byte %d: %v", i, err)
		}
		if rec.Ops < int64(len(ops)-32) || rec.Lost > 1 {
			t.Fatalf("byte %d: %+v", i, rec)
		}
		f, err := Open(dst, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for op, err := range f.History().All() {
			if err != nil {
				t.Fatal(err)
			}
			if !op.Equal(ops[op.Index]) {
				t.Fatalf("byte %d: recovered %v, not %v", i, op, ops[op.Index])
			}
		}
		f.Close()
		if n, err := Verify(dst, Options{}, func(c *CorruptError) { t.Error(c) }); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		os.Remove(dst)
	}
	for _, want := range []string{"type", "process", "time", "value", "description"} {
		if !named[want] {
			t.Errorf("Verify never named %q", want)
		}
	}
}

// twice is a chunk that a forged directory has two times.
type twice struct{ e *entry }

func (c twice) finish(p *packer, number int) entry {
	e := *c.e
	e.first, e.reach, e.n = c.e.end(), c.e.end(), c.e.n/2
	return e
}

// kept is a chunk whose entry is remembered.
type kept struct {
	chunkEncoder
	e *entry
}

func (c *kept) finish(p *packer, number int) entry {
	*c.e = c.chunkEncoder.finish(p, number)
	return *c.e
}

// Two entries of the directory may not refer to the same columns: they would be
// taken for each other in the cache.
func TestChunkReferredToTwice(t *testing.T) {
	dev := &memDevice{}
	if _, err := dev.WriteAt(newFileHeader(), 0); err != nil {
		t.Fatal(err)
	}
	c := &kept{e: new(entry)}
	c.reset(0)
	ops := listAppend(20)
	for i := range ops {
		c.add(&ops[i], -1)
	}
	s := &sealer{dev: dev, end: firstBlock, root: root{dense: true}}
	if err := s.commit([]job{{chunk: c}, {chunk: twice{c.e}}}); err != nil {
		t.Fatal(err)
	}
	f, err := openOn(dev, "mem", Options{Cache: NewCache(1 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if op, err := f.History().Nth(19); err != nil || !op.Equal(ops[19]) {
			t.Fatal(op, err)
		}
	}
	for _, pos := range []int64{20, 29} {
		if _, err := f.History().Nth(pos); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("operation %d: %v", pos, err)
		}
	}
}

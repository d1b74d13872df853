package store

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jepsentest/go/histories"
)

// memDevice is a file in memory with a model of what a crash does to it: of
// the writes since the last sync, any may be lost, be there in part, or be
// there without those before it.
type memDevice struct {
	mu      sync.Mutex
	synced  []byte
	pending []pendingWrite
	now     []byte // what a reader sees while nothing crashes

	// fail, if not nil, is asked before every write and sync.
	fail func(write bool, n int) (int, error)
	log  []func(*memDevice) // observers of every step
}

type pendingWrite struct {
	off  int64
	data []byte
}

func patch(b []byte, off int64, data []byte) []byte {
	if need := int(off) + len(data); len(b) < need {
		b = append(b, make([]byte, need-len(b))...)
	}
	copy(b[off:], data)
	return b
}

func (d *memDevice) WriteAt(b []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := len(b), error(nil)
	if d.fail != nil {
		n, err = d.fail(true, n)
	}
	d.pending = append(d.pending, pendingWrite{off, append([]byte(nil), b[:n]...)})
	d.now = patch(d.now, off, b[:n])
	d.step()
	return n, err
}

func (d *memDevice) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		if _, err := d.fail(false, 0); err != nil {
			return err
		}
	}
	for _, w := range d.pending {
		d.synced = patch(d.synced, w.off, w.data)
	}
	d.pending = nil
	d.step()
	return nil
}

func (d *memDevice) step() {
	for _, f := range d.log {
		f(d)
	}
}

func (d *memDevice) ReadAt(b []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if off >= int64(len(d.now)) {
		return 0, io.EOF
	}
	n := copy(b, d.now[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (d *memDevice) Size() (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(len(d.now)), nil
}

func (d *memDevice) Close() error { return nil }

// crashed returns what may be found after a crash now: each unsynced write is
// there, or not, or some of its sectors are.
func (d *memDevice) crashed(r *rand.Rand) *memDevice {
	b := append([]byte(nil), d.synced...)
	order := r.Perm(len(d.pending))
	for _, i := range order {
		w := d.pending[i]
		switch r.IntN(4) {
		case 0: // lost
		case 1: // whole
			b = patch(b, w.off, w.data)
		case 2: // a prefix of any length
			b = patch(b, w.off, w.data[:r.IntN(len(w.data)+1)])
		case 3: // any of its sectors
			for from := 0; from < len(w.data); {
				to := min(len(w.data), from+512-int(w.off+int64(from))%512)
				if r.IntN(2) == 0 {
					b = patch(b, w.off+int64(from), w.data[from:to])
				}
				from = to
			}
		}
	}
	return &memDevice{now: b, synced: b}
}

func memFile(b []byte) *memDevice { return &memDevice{now: b, synced: b} }

// readAll reads everything from a device, and returns the operations and the
// metadata.
func readAll(dev device) ([]histories.Op, histories.Value, error) {
	f, err := openOn(dev, "mem", Options{Cache: NewCache(32 << 20)})
	if err != nil {
		return nil, histories.Value{}, err
	}
	ops, err := histories.Collect(f.History())
	if err != nil {
		return nil, histories.Value{}, err
	}
	meta, err := f.Meta()
	if err != nil {
		return nil, meta, err
	}
	res, err := f.Results()
	if err != nil {
		return nil, meta, err
	}
	if res != nil {
		for _, name := range res.Names() {
			if _, _, err := res.Get(name); err != nil {
				return nil, meta, err
			}
		}
	}
	return ops, meta, nil
}

func samePrefix(t testing.TB, got, want []histories.Op) {
	t.Helper()
	if len(got) > len(want) {
		t.Fatalf("%d operations, where %d were written", len(got), len(want))
	}
	for i := range got {
		if !got[i].Equal(want[i]) {
			t.Fatalf("operation %d:\n got %v\nwant %v", i, got[i], want[i])
		}
	}
}

// A crash at any step of the device, whatever it does to unsynced writes,
// leaves a file that opens to a state that was durable: everything that the
// Writer had reported as sealed, and nothing that was not appended.
func TestCrashAtEveryWrite(t *testing.T) {
	ops := listAppend(400)
	dev := &memDevice{}
	r := rand.New(rand.NewPCG(1, 2))
	type snapshot struct {
		dev     *memDevice
		created bool
		sealed  int64
	}
	var w *Writer
	var steps []snapshot
	dev.log = append(dev.log, func(d *memDevice) {
		var sealed int64
		if w != nil {
			sealed = w.Sealed()
		}
		for range 12 {
			steps = append(steps, snapshot{d.crashed(r), w != nil, sealed})
		}
	})
	w, err := createOn(dev, "mem", Options{ChunkOps: 16})
	if err != nil {
		t.Fatal(err)
	}
	for i := range ops {
		if err := w.Append(&ops[i]); err != nil {
			t.Fatal(err)
		}
		if i%100 == 50 {
			if err := w.SetMeta(histories.Int(int64(i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for i, s := range steps {
		got, _, err := readAll(s.dev)
		if err != nil {
			// Before the creation is complete there may be nothing.
			if !s.created && (errors.Is(err, ErrNotBlockLog) || errors.Is(err, ErrCorrupt)) {
				continue
			}
			t.Fatalf("crash %d, %d operations sealed: %v", i, s.sealed, err)
		}
		if int64(len(got)) < s.sealed {
			t.Fatalf("crash %d: %d operations, where %d were sealed", i, len(got), s.sealed)
		}
		samePrefix(t, got, ops)
		// The file can be used on: for a re-analysis.
		if i%7 == 0 {
			again, err := appendOn(s.dev, "mem", Options{})
			if err != nil {
				t.Fatalf("crash %d: %v", i, err)
			}
			if err := again.SetResults(histories.Keyword("valid")); err != nil {
				t.Fatal(err)
			}
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
			if after, _, err := readAll(s.dev); err != nil || len(after) != len(got) {
				t.Fatalf("crash %d, after a re-analysis: %d operations, %v", i, len(after), err)
			}
		}
	}
	t.Logf("%d crashes", len(steps))
}

// A device that fails at any step makes Append and Close report the error, and
// what was sealed stays readable, also by others.
func TestDeviceFailures(t *testing.T) {
	ops := listAppend(300)
	errFull := errors.New("no space left on device")
	kinds := map[string]func(write bool, n int) (int, error){
		"disk full":  func(write bool, n int) (int, error) { return n / 3, errFull },
		"error":      func(write bool, n int) (int, error) { return 0, errFull },
		"sync error": func(write bool, n int) (int, error) { return n, errFull },
		"short write": func(write bool, n int) (int, error) {
			if !write {
				return 0, errFull
			}
			return n / 2, nil
		},
	}
	for name, fail := range kinds {
		for at := 4; at < 60; at += 3 {
			step := 0
			dev := &memDevice{}
			dev.fail = func(write bool, n int) (int, error) {
				if step++; step < at || name == "sync error" && write {
					return n, nil
				}
				return fail(write, n)
			}
			w, err := createOn(dev, "mem.jt", Options{ChunkOps: 16, Queue: 2})
			if err != nil {
				continue
			}
			for i := range ops {
				if err = w.Append(&ops[i]); err != nil {
					break
				}
			}
			sealed := w.Sealed()
			closeErr := w.Close()
			if closeErr == nil {
				if step >= at {
					t.Fatalf("%s at step %d: nobody was told", name, at)
				}
				continue
			}
			if err != nil && err.Error() != closeErr.Error() {
				t.Fatalf("%s at step %d: Append and Close disagree: %v; %v", name, at, err, closeErr)
			}
			if want := fmt.Sprintf("%d operations are safe in mem.jt", w.Sealed()); !errorSays(closeErr, "write history: ", want) {
				t.Fatalf("%s at step %d: %v", name, at, closeErr)
			}
			if err := w.Append(&ops[0]); err == nil {
				t.Fatalf("%s at step %d: the error went away", name, at)
			}
			got, _, err := readAll(dev)
			if err != nil {
				t.Fatalf("%s at step %d: %v", name, at, err)
			}
			if int64(len(got)) < sealed {
				t.Fatalf("%s at step %d: %d operations of %d", name, at, len(got), sealed)
			}
			samePrefix(t, got, ops)
		}
	}
}

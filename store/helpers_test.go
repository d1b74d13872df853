package store

import (
	"sync/atomic"
	"testing"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/store/internal/listappend"
)

// listAppend returns n operations of the benchmarks' history.
func listAppend(n int) []histories.Op {
	g := listappend.New(1, 20)
	ops := make([]histories.Op, n)
	for i := range ops {
		g.Next(&ops[i])
	}
	return ops
}

func writeAll(tb testing.TB, path string, ops []histories.Op, opts Options) {
	tb.Helper()
	w, err := Create(path, opts)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range ops {
		if err := w.Append(&ops[i]); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
}

// discard is a device that keeps nothing.
type discard struct{ size atomic.Int64 }

func (d *discard) WriteAt(b []byte, off int64) (int, error) {
	d.size.Store(max(d.size.Load(), off+int64(len(b))))
	return len(b), nil
}
func (d *discard) ReadAt([]byte, int64) (int, error) { panic("not kept") }
func (d *discard) Size() (int64, error)              { return d.size.Load(), nil }
func (d *discard) Sync() error                       { return nil }
func (d *discard) Close() error                      { return nil }

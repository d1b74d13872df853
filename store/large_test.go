//go:build unix

package store

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/store/internal/listappend"
)

// TestLarge writes a history of as many operations as STORE_TEST_LARGE says,
// and checks what must hold at any size: memory while writing, and the time to
// open it, to read one operation, and to scan a column. A billion operations
// take 8 GB and a quarter of an hour.
func TestLarge(t *testing.T) {
	n, err := strconv.ParseInt(os.Getenv("STORE_TEST_LARGE"), 10, 64)
	if err != nil {
		t.Skip("set STORE_TEST_LARGE to a number of operations")
	}
	path := filepath.Join(t.TempDir(), HistoryFile)
	w, err := Create(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var peak uint64
	start := time.Now()
	g := listappend.New(1, 20)
	var op histories.Op
	for i := range n {
		g.Next(&op)
		if err := w.Append(&op); err != nil {
			t.Fatal(err)
		}
		if i%1_000_000 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.Sys-m.HeapReleased)
		}
	}
	if err := w.SetMeta(histories.MapOf(histories.Entry{Key: histories.Keyword("name"), Value: histories.String("large")})); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("wrote %d operations in %v (%.0f ops/s, with making them), %.2f bytes each, %d MiB of memory",
		n, took.Round(time.Second), float64(n)/took.Seconds(), float64(info.Size())/float64(n), peak>>20)
	if peak > 150<<20 {
		t.Errorf("writing took %d MiB", peak>>20)
	}

	start = time.Now()
	f, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if m, err := f.Meta(); err != nil || m.IsNil() {
		t.Fatal(m, err)
	}
	t.Logf("opened, with metadata, in %v", time.Since(start))

	r := rand.New(rand.NewPCG(1, 1))
	var sum, worst time.Duration
	const reads = 200
	for range reads {
		index := r.Int64N(n)
		start := time.Now()
		if op, ok, err := f.History().Get(index); err != nil || !ok || op.Index != index {
			t.Fatal(op, ok, err)
		}
		took := time.Since(start)
		sum, worst = sum+took, max(worst, took)
	}
	t.Logf("one operation by index: %v on average, %v at worst", sum/reads, worst)

	start = time.Now()
	var invocations atomic.Int64
	for c, err := range histories.Chunks(f.History(), histories.ColType) {
		if err != nil {
			t.Fatal(err)
		}
		var k [256]int64
		for _, typ := range c.Type {
			k[typ]++
		}
		invocations.Add(k[histories.Invoke])
	}
	took = time.Since(start)
	t.Logf("counted types in %v on one core (%.0f M ops/s)", took, float64(n)/1e6/took.Seconds())
}

package store

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/store/internal/listappend"
)

// A scan of a file many times larger than the cache keeps the cache within its
// budget, and the memory in use within the budget, the chunk at hand, and what
// it takes to decode the next.
func TestScanStaysWithinBudget(t *testing.T) {
	const (
		chunks = 40
		budget = 12 << 20
	)
	path := filepath.Join(t.TempDir(), HistoryFile)
	w, err := Create(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := listappend.New(1, 20)
	var op histories.Op
	for range chunks * histories.ChunkSize {
		g.Next(&op)
		if err := w.Append(&op); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	cache := NewCache(budget)
	f, err := Open(path, Options{Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	var chunk, n int64
	for c, err := range histories.Chunks(f.History(), histories.AllColumns) {
		if err != nil {
			t.Fatal(err)
		}
		n += int64(c.Len())
		used := cache.Used()
		if chunk == 0 {
			chunk = used
		}
		if used > budget {
			t.Fatalf("after %d operations the cache holds %d bytes of %d", n, used, budget)
		}
		if c.Number%8 != 7 {
			continue
		}
		if now := heap(); now > before && int64(now-before) > budget+2*chunk {
			t.Fatalf("after %d operations %d bytes are in use; the budget is %d, a chunk %d", n, now-before, budget, chunk)
		}
		runtime.KeepAlive(c)
	}
	if n != chunks*histories.ChunkSize || chunk == 0 || chunk*chunks < 4*budget {
		t.Errorf("%d operations, a chunk has %d bytes: this shows nothing", n, chunk)
	}
}

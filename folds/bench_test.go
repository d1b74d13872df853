package folds_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/store"
)

// listAppender makes a history of transactions of one to four appends and reads
// of ten active keys, by twenty processes, on a store that applies them one at a time.
type listAppender struct {
	rng   *rand.Rand
	lists map[int64][]int64
	base  int64
	next  int64
	open  []histories.Op
	idle  []histories.Process
	index int64
}

func newListAppender() *listAppender {
	g := &listAppender{rng: rand.New(rand.NewPCG(1, 2)), lists: map[int64][]int64{}}
	for p := range histories.Process(20) {
		g.idle = append(g.idle, p)
	}
	return g
}

func (g *listAppender) op() histories.Op {
	var op histories.Op
	if len(g.idle) > 0 && (len(g.open) == 0 || g.rng.IntN(2) == 0) {
		last := len(g.idle) - 1
		op = histories.Op{Process: g.idle[last], Type: histories.Invoke, F: "txn"}
		g.idle = g.idle[:last]
		mops := make([]histories.Mop, 1+g.rng.IntN(4))
		for i := range mops {
			key := g.base + min(int64(g.rng.ExpFloat64()*2), 9)
			if g.rng.IntN(2) == 0 {
				mops[i] = histories.Read(histories.Int(key))
			} else {
				g.next++
				mops[i] = histories.Append(histories.Int(key), histories.Int(g.next))
			}
		}
		op.Value = histories.Txn(mops...)
		g.open = append(g.open, op)
	} else {
		k := g.rng.IntN(len(g.open))
		op = g.open[k]
		g.open[k] = g.open[len(g.open)-1]
		g.open = g.open[:len(g.open)-1]
		g.idle = append(g.idle, op.Process)
		op.Type = histories.OK
		switch r := g.rng.IntN(100); {
		case r < 3:
			op.Type = histories.Fail
		case r < 5:
			op.Type = histories.Info
			g.idle[len(g.idle)-1] += 20
		default:
			op.Value = g.apply(op.Value)
		}
	}
	op.Index, op.Time = g.index, time.Duration(g.index)*20*time.Microsecond
	g.index++
	return op
}

func (g *listAppender) apply(v histories.Value) histories.Value {
	asked, _ := v.Txn()
	mops := append([]histories.Mop(nil), asked...)
	for i, m := range mops {
		key, _ := m.Key.Int()
		if m.Kind == histories.MopRead {
			mops[i].Value = histories.Ints(g.lists[key]...)
			continue
		}
		element, _ := m.Value.Int()
		g.lists[key] = append(g.lists[key], element)
		if len(g.lists[key]) == 256 {
			delete(g.lists, g.base)
			g.base++
		}
	}
	return histories.Txn(mops...)
}

// stored is a history of 10 M operations in a block log, made once; fewer with -short.
var stored = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "folds-bench")
	if err != nil {
		return "", err
	}
	storedDir.Store(&dir)
	path := filepath.Join(dir, "history.jt")
	w, err := store.Create(path, store.Options{})
	if err != nil {
		return "", err
	}
	n := 10_000_000
	if testing.Short() {
		n = 1_000_000
	}
	g := newListAppender()
	for range n {
		op := g.op()
		if err := w.Append(&op); err != nil {
			return "", err
		}
	}
	return path, w.Close()
})

var storedDir atomic.Pointer[string]

func TestMain(m *testing.M) {
	code := m.Run()
	if dir := storedDir.Load(); dir != nil {
		_ = os.RemoveAll(*dir)
	}
	os.Exit(code)
}

// openCold opens the stored history with a cache that holds next to nothing of it.
func openCold(b *testing.B) *store.File {
	b.Helper()
	path, err := stored()
	if err != nil {
		b.Fatal(err)
	}
	f, err := store.Open(path, store.Options{Cache: store.NewCache(1 << 20)})
	if err != nil {
		b.Fatal(err)
	}
	return f
}

func reportOps(b *testing.B, ops int64) {
	b.ReportMetric(float64(ops)*float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

var inMemory = sync.OnceValue(func() histories.History {
	h, _ := counted(makeOps(1_000_000), histories.ChunkSize)
	return h
})

type typeCounts [histories.NumTypes]int64

func countTypes() folds.Fold[typeCounts, typeCounts] {
	return folds.Fold[typeCounts, typeCounts]{
		Name:        "count by type",
		Columns:     histories.ColType,
		New:         func() typeCounts { return typeCounts{} },
		Chunk:       countTypesIn,
		Merge:       addTypes,
		Associative: true,
		Result:      func(n typeCounts) (typeCounts, error) { return n, nil },
	}
}

func countTypesIn(n typeCounts, c *histories.Chunk) (typeCounts, error) {
	for _, t := range c.Type {
		n[t&3]++
	}
	return n, nil
}

func addTypes(a, b typeCounts) (typeCounts, error) {
	for t := range a {
		a[t] += b[t]
	}
	return a, nil
}

// M1: in memory, by type.
func BenchmarkMemoryCountByType(b *testing.B) {
	h := inMemory()
	b.ReportAllocs()
	for b.Loop() {
		n, err := folds.Run(context.Background(), h, countTypes())
		if err != nil || n[histories.Invoke] != 500_000 {
			b.Fatal(n, err)
		}
	}
	reportOps(b, 1_000_000)
}

// The Folder's own work: what a chunk costs when the fold does nothing with it.
// Two percent of the time that the fastest of folds takes for 16,384 operations,
// one nanosecond for each, are 330 ns.
func BenchmarkOverheadOfAChunk(b *testing.B) {
	h := inMemory()
	chunks := h.Source().NumChunks()
	for _, kind := range kinds {
		b.Run(kind, func(b *testing.B) {
			f := folds.Fold[int64, int64]{
				Name:        "nothing",
				Columns:     histories.ColType,
				New:         func() int64 { return 0 },
				Chunk:       func(n int64, _ *histories.Chunk) (int64, error) { return n, nil },
				Associative: kind == "associative",
				Result:      func(n int64) (int64, error) { return n, nil },
			}
			if kind != "linear" {
				f.Merge = func(a, b int64) (int64, error) { return a + b, nil }
			}
			for b.Loop() {
				if _, err := folds.Run(context.Background(), h, f); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*chunks), "ns/chunk")
		})
	}
}

// A Step for every operation, in place of whole chunks.
func BenchmarkMemorySteps(b *testing.B) {
	h := inMemory()
	f := folds.Fold[int64, int64]{Name: "sum", New: func() int64 { return 0 },
		Step: func(n int64, op histories.Op) (int64, error) {
			v, _ := op.Value.Int()
			return n + v, nil
		},
		Merge:       func(x, y int64) (int64, error) { return x + y, nil },
		Associative: true,
		Result:      func(n int64) (int64, error) { return n, nil }}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := folds.Run(context.Background(), h, f); err != nil {
			b.Fatal(err)
		}
	}
	reportOps(b, 1_000_000)
}

// Latency: a history of 100 operations.
func BenchmarkSmallHistory(b *testing.B) {
	h, _ := counted(makeOps(100), histories.ChunkSize)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := folds.Run(context.Background(), h, countTypes()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/1e3/float64(b.N), "µs/fold")
}

// F1: a stored history, reading only the columns that are needed, with a cache
// that holds next to nothing.
func BenchmarkStoredCount(b *testing.B) {
	b.Run("type", func(b *testing.B) { benchStored(b, countTypes()) })
	b.Run("f and type", func(b *testing.B) {
		benchStored(b, folds.Over(folds.FTypes(), folds.Frequencies[folds.FType]()))
	})
}

func benchStored[A, R any](b *testing.B, fold folds.Fold[A, R]) {
	f := openCold(b)
	defer f.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := folds.Run(context.Background(), f.History(), fold); err != nil {
			b.Fatal(err)
		}
	}
	reportOps(b, f.Len())
}

// F2 and F3: folds that need every field, one or eight at a time. Light ones look
// at each operation, heavy ones at each micro-operation of each transaction.
func BenchmarkStoredFullDecode(b *testing.B) {
	for _, kind := range []struct {
		name string
		take func(k int64, v histories.Value) int64
	}{{"light", longTxns}, {"heavy", appendsTo}} {
		for _, many := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s/%d", kind.name, many), func(b *testing.B) { benchFullDecode(b, many, kind.take) })
		}
	}
}

func benchFullDecode(b *testing.B, many int, take func(k int64, v histories.Value) int64) {
	f := openCold(b)
	defer f.Close()
	fs := make([]func(), many)
	for k := range fs {
		fs[k] = func() {
			if _, err := folds.Run(context.Background(), f.History(), total(int64(k), take)); err != nil {
				b.Error(err)
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		together(fs...)
	}
	reportOps(b, f.Len())
	s := folds.For(f.History()).Stats()
	b.ReportMetric(s.Decode.Seconds()/float64(b.N), "decode-s")
	b.ReportMetric(s.Reduce.Seconds()/float64(b.N), "reduce-s")
	b.ReportMetric(float64(s.Read)/float64(b.N*f.History().Source().NumChunks()), "reads/chunk")
}

// F3 as a ratio: one and eight light folds in turn, so that both meet the same
// noise; the ratio is that of the least times.
func BenchmarkStoredEightToOne(b *testing.B) {
	f := openCold(b)
	defer f.Close()
	run := func(many int) time.Duration {
		fs := make([]func(), many)
		for k := range fs {
			fs[k] = func() {
				if _, err := folds.Run(context.Background(), f.History(), total(int64(k), longTxns)); err != nil {
					b.Error(err)
				}
			}
		}
		start := time.Now()
		together(fs...)
		return time.Since(start)
	}
	one, eight := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for b.Loop() {
		one, eight = min(one, run(1)), min(eight, run(8))
	}
	b.ReportMetric(eight.Seconds()/one.Seconds(), "eight/one")
	b.ReportMetric(float64(f.Len())/one.Seconds(), "one-ops/s")
}

// total sums up something about values: the k-th of a family of folds.
func total(k int64, take func(int64, histories.Value) int64) folds.Fold[int64, int64] {
	return folds.Fold[int64, int64]{
		Name: fmt.Sprint("total ", k),
		New:  func() int64 { return 0 },
		Chunk: func(n int64, c *histories.Chunk) (int64, error) {
			for i := range c.Value {
				n += take(k, c.Value[i])
			}
			return n, nil
		},
		Merge:       func(a, b int64) (int64, error) { return a + b, nil },
		Associative: k%2 == 0,
		Result:      func(n int64) (int64, error) { return n, nil },
	}
}

func longTxns(k int64, v histories.Value) int64 {
	if mops, _ := v.Txn(); int64(len(mops)) > k {
		return 1
	}
	return 0
}

func appendsTo(k int64, v histories.Value) (n int64) {
	mops, _ := v.Txn()
	for i := range mops {
		if key, _ := mops[i].Key.Int(); key%8 == k && mops[i].Kind == histories.MopAppend {
			n++
		}
	}
	return n
}

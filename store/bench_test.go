//go:build unix

package store

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/store/internal/listappend"
)

// cpuTime returns the processor time of the process: on a machine that is
// shared it varies less than the time on the clock.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// report reports operations per second, and the processor time of each.
func report(b *testing.B, ops int64, since time.Duration) {
	b.ReportMetric(float64(ops)/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric(float64(cpuTime()-since)/float64(ops), "cpu-ns/op")
}

// S1, S2: writing a crash-safe history.
func BenchmarkWrite(b *testing.B) {
	ops := listAppend(1_000_000)
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime()
	var size int64
	for i := range b.N {
		path := filepath.Join(b.TempDir(), fmt.Sprint(i, ".jt"))
		writeAll(b, path, ops, Options{})
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		size = info.Size()
	}
	report(b, int64(b.N*len(ops)), cpu)
	b.ReportMetric(float64(size)/float64(len(ops)), "bytes/op")
}

// Append alone: what the scheduler's goroutine pays.
func BenchmarkAppend(b *testing.B) {
	ops := listAppend(1_000_000)
	w, err := createOn(&discard{}, "bench", Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime()
	for i := range b.N {
		if err := w.Append(&ops[i%len(ops)]); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	report(b, int64(b.N), cpu)
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

// benchFile is a history of 10 M operations, made once.
var benchFile = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "store-bench")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "history.jt")
	w, err := Create(path, Options{})
	if err != nil {
		return "", err
	}
	g := listappend.New(2, 20)
	var op histories.Op
	for range 10_000_000 {
		g.Next(&op)
		if err := w.Append(&op); err != nil {
			return "", err
		}
	}
	if err := w.SetMeta(histories.MapOf(histories.Entry{Key: histories.Keyword("name"), Value: histories.String("bench")})); err != nil {
		return "", err
	}
	return path, w.Close()
})

// RemoveBenchFile removes the file of the benchmarks, if they made one.
func RemoveBenchFile() {
	if benchMade.Load() {
		if path, err := benchFile(); err == nil {
			os.RemoveAll(filepath.Dir(path))
		}
	}
}

var benchMade atomic.Bool

func openBench(b *testing.B, opts Options) *File {
	b.Helper()
	benchMade.Store(true)
	path, err := benchFile()
	if err != nil {
		b.Fatal(err)
	}
	f, err := Open(path, opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return f
}

// scan reads all chunks with two workers, as a fold does.
func scan(b *testing.B, f *File, cols histories.Columns, use func(*histories.Chunk)) {
	src := f.History().Source()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				i := int(next.Add(1) - 1)
				if i >= src.NumChunks() {
					return
				}
				c, err := src.ReadChunk(i, cols)
				if err != nil {
					b.Error(err)
					return
				}
				use(c)
			}
		})
	}
	wg.Wait()
}

// F2: every field, of a file larger than the cache.
func BenchmarkScanAll(b *testing.B) {
	f := openBench(b, Options{Cache: NewCache(16 << 20)})
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime()
	for range b.N {
		scan(b, f, histories.AllColumns, func(*histories.Chunk) {})
	}
	report(b, int64(b.N)*f.Len(), cpu)
}

// F1: types only, nothing in the cache.
func BenchmarkScanTypes(b *testing.B) {
	f := openBench(b, Options{Cache: NewCache(16 << 20)})
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime()
	for range b.N {
		f.cache = NewCache(16 << 20)
		var counts [histories.NumTypes]atomic.Int64
		scan(b, f, histories.ColType, func(c *histories.Chunk) {
			var n [256]int64
			for _, t := range c.Type {
				n[t]++
			}
			for t := range counts {
				counts[t].Add(n[t])
			}
		})
		if counts[histories.Invoke].Load() == 0 {
			b.Fatal("nothing was counted")
		}
	}
	report(b, int64(b.N)*f.Len(), cpu)
}

// Open, and read the metadata.
func BenchmarkOpen(b *testing.B) {
	path := openBench(b, Options{}).Path()
	b.ResetTimer()
	cpu := cpuTime()
	for range b.N {
		f, err := Open(path, Options{Cache: NewCache(16 << 20)})
		if err != nil {
			b.Fatal(err)
		}
		if m, err := f.Meta(); err != nil || m.IsNil() {
			b.Fatal(m, err)
		}
		f.Close()
	}
	report(b, int64(b.N), cpu)
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1e3/float64(b.N), "ms/open")
}

// S3: open, and read the first operation.
func BenchmarkOpenFirst(b *testing.B) {
	path := openBench(b, Options{}).Path()
	b.ResetTimer()
	cpu := cpuTime()
	for range b.N {
		f, err := Open(path, Options{Cache: NewCache(16 << 20)})
		if err != nil {
			b.Fatal(err)
		}
		if op, err := f.History().Nth(0); err != nil || op.Type != histories.Invoke {
			b.Fatal(op, err)
		}
		f.Close()
	}
	report(b, int64(b.N), cpu)
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1e3/float64(b.N), "ms/open")
}

// S4: one operation by index, with nothing in the cache.
func BenchmarkRandomOp(b *testing.B) {
	f := openBench(b, Options{})
	b.ResetTimer()
	cpu := cpuTime()
	x := int64(12345)
	for range b.N {
		f.cache = NewCache(64 << 20)
		f.lastLeaf.Store(nil)
		x = (x*6364136223846793005 + 1442695040888963407) & (1<<62 - 1)
		if _, ok, err := f.History().Get(x % f.Len()); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
	report(b, int64(b.N), cpu)
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1e3/float64(b.N), "ms/read")
}

// Skipping by summary costs what reading the directory costs.
func BenchmarkSkip(b *testing.B) {
	f := openBench(b, Options{})
	src := f.History().Source()
	b.ResetTimer()
	cpu := cpuTime()
	for range b.N {
		f.cache = NewCache(64 << 20)
		f.lastLeaf.Store(nil)
		for i := range src.NumChunks() {
			if _, err := src.Summary(i); err != nil {
				b.Fatal(err)
			}
		}
	}
	report(b, int64(b.N)*f.Len(), cpu)
}

// The cost of making a chunk durable on this device, to read S1 against.
func BenchmarkSync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "f"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 128<<10)
	start := time.Now()
	for i := range b.N {
		f.WriteAt(buf, int64(i)*int64(len(buf)))
		f.Sync()
	}
	b.ReportMetric(float64(time.Since(start).Microseconds())/1e3/float64(b.N), "ms/sync")
}

package store

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/store/internal/listappend"
)

// An open chunk is sealed in time, without another call of Append.
func TestSealInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := createOn(&memDevice{}, "mem", Options{})
		if err != nil {
			t.Fatal(err)
		}
		ops := listAppend(30)
		for i := range ops {
			if err := w.Append(&ops[i]); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if behind := int64(i+1) - w.Sealed(); behind > 10 {
				t.Fatalf("%d operations after %v are not sealed", behind, time.Duration(i)*100*time.Millisecond)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if w.Sealed() != 30 {
			t.Fatalf("%d of 30 operations sealed after a second of rest", w.Sealed())
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A device that is too slow makes Append wait, with a bounded number of chunks
// in memory, and nothing is lost.
func TestBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var blocked atomic.Bool
		dev := &slowDevice{wait: func() {
			if blocked.Load() {
				<-gate
			}
		}}
		w, err := createOn(dev, "mem", Options{ChunkOps: 10, Queue: 3})
		if err != nil {
			t.Fatal(err)
		}
		blocked.Store(true)
		ops := listAppend(1000)
		var appended atomic.Int64
		done := make(chan error)
		go func() {
			for i := range ops {
				if err := w.Append(&ops[i]); err != nil {
					done <- err
					return
				}
				appended.Add(1)
			}
			done <- w.Close()
		}()
		synctest.Wait()
		if n := appended.Load(); n < 30 || n > 50 {
			t.Fatalf("%d operations appended while the device stood still", n)
		}
		blocked.Store(false)
		close(gate)
		if err := <-done; err != nil || w.Sealed() != 1000 {
			t.Fatal(err, w.Sealed())
		}
	})
}

// However slow the disk, what a crash would cost is what was appended within
// the time that was promised, and one chunk.
func TestSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev := &slowDevice{wait: func() { time.Sleep(5 * time.Second) }}
		w, err := createOn(dev, "mem", Options{ChunkOps: 10, Queue: 1000})
		if err != nil {
			t.Fatal(err)
		}
		ops := listAppend(3000)
		at := make([]time.Time, len(ops))
		for i := range ops {
			time.Sleep(time.Millisecond)
			if err := w.Append(&ops[i]); err != nil {
				t.Fatal(err)
			}
			at[i] = time.Now()
			// The operations that are not sealed were appended within the
			// promised time, plus at most one chunk before or after a wait.
			n := w.Sealed()
			if lost := i + 1 - int(n); lost > 1000+2*10 {
				t.Fatalf("%d operations are not sealed, from %v to %v", lost, at[n], at[i])
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

type slowDevice struct {
	memDevice
	wait func()
}

func (d *slowDevice) Sync() error {
	d.wait()
	return d.memDevice.Sync()
}

// Sealing a chunk writes as much at the beginning of a history as after ten
// thousand chunks; and in a directory of three levels everything is found.
func TestSealingCostIsFlat(t *testing.T) {
	dev := &memDevice{}
	w, err := createOn(dev, "mem", Options{ChunkOps: 4})
	if err != nil {
		t.Fatal(err)
	}
	const chunks = 10_000
	ops := listAppend(4 * chunks)
	var sizes []int64
	for i := range ops {
		if err := w.Append(&ops[i]); err != nil {
			t.Fatal(err)
		}
		if i%4 == 3 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			size, _ := dev.Size()
			sizes = append(sizes, size)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	per := func(from, to int) float64 { return float64(sizes[to]-sizes[from]) / float64(to-from) }
	early, late := per(0, 128), per(chunks-129, chunks-1)
	t.Logf("%.0f bytes a chunk at first, %.0f at last", early, late)
	if late > 2*early {
		t.Errorf("a chunk takes %.0f bytes after %d chunks, and took %.0f at first", late, chunks, early)
	}
	f, err := openOn(dev, "mem", Options{Cache: NewCache(1 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	if h := f.state.Load().root.height; h != 3 {
		t.Fatalf("height %d", h)
	}
	for i := 0; i < len(ops); i += 97 {
		if op, err := f.History().Nth(int64(i)); err != nil || !op.Equal(ops[i]) {
			t.Fatalf("Nth(%d): %v, %v", i, op, err)
		}
		inv, _, err := f.History().Source().Partner(int64(i))
		if err != nil || inv < 0 {
			t.Fatal(err)
		}
	}
}

// Damage to a node of the directory costs the chunks below it, not the rest.
func TestDamagedDirectory(t *testing.T) {
	dev := &memDevice{}
	w, err := createOn(dev, "mem", Options{ChunkOps: 2})
	if err != nil {
		t.Fatal(err)
	}
	ops := listAppend(400)
	for i := range ops {
		if err := w.Append(&ops[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := openOn(dev, "mem", Options{Cache: NewCache(1 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	st := f.state.Load()
	top, err := f.node(st, st.root.height-1, st.top())
	if err != nil {
		t.Fatal(err)
	}
	dev.now[top.kids[1].at.off+30] ^= 1
	src := f.History().Source()
	pos, bad := int64(0), 0
	for i := range src.NumChunks() {
		first, n := src.Span(i)
		if first != pos && n > 0 {
			t.Fatalf("chunk %d begins at %d, where %d operations came before", i, first, pos)
		}
		pos += int64(n)
		if _, err := src.ReadChunk(i, histories.ColType); err != nil {
			bad++
		}
	}
	if pos != 400 || bad != fanout {
		t.Fatalf("%d operations in all, %d chunks unreadable", pos, bad)
	}
	if _, err := f.History().Nth(fanout*2 + 1); err == nil {
		t.Fatal("an operation below the damage was read")
	}
	if op, err := f.History().Nth(399); err != nil || !op.Equal(ops[399]) {
		t.Fatal(op, err)
	}
}

// Appending takes no memory that grows with the history, and in steady state
// allocates nothing.
func TestMemoryIsFlat(t *testing.T) {
	w, err := createOn(&discard{}, "mem", Options{})
	if err != nil {
		t.Fatal(err)
	}
	ops := listAppend(100_000)
	heap := func() uint64 {
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	start := heap()
	next := 0
	run := func(n int) {
		for range n {
			op := ops[next%len(ops)]
			op.Index, op.Time = int64(next), time.Duration(next)
			next++
			if err := w.Append(&op); err != nil {
				t.Fatal(err)
			}
		}
	}
	run(300_000)
	early := heap()
	run(1_000_000)
	late := heap()
	t.Logf("heap grew by %d KiB after 300,000 operations, by %d KiB after 1,300,000", (early-start)>>10, (late-start)>>10)
	if late > early+4<<20 || late > start+64<<20 {
		t.Errorf("the heap grows while writing")
	}
	if n := testing.AllocsPerRun(20_000, func() { run(1) }); n > 0 {
		t.Errorf("%v allocations for each operation", n)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// Readers of the same chunk share it: it is decoded once.
func TestDecodeOnce(t *testing.T) {
	dev := &memDevice{}
	w, err := createOn(dev, "mem", Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := listappend.New(3, 20)
	var op histories.Op
	for range 40_000 {
		g.Next(&op)
		if err := w.Append(&op); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	cache := NewCache(64 << 20)
	var first [3]atomic.Pointer[histories.Value]
	var wg sync.WaitGroup
	for range 8 {
		f, err := openOn(dev, "mem", Options{Cache: cache})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for i := range 3 {
				c, err := f.History().Source().ReadChunk(i, histories.ColValue)
				if err != nil {
					t.Error(err)
					return
				}
				if p := &c.Value[0]; !first[i].CompareAndSwap(nil, p) && first[i].Load() != p {
					t.Errorf("chunk %d was decoded twice", i)
				}
			}
		})
	}
	wg.Wait()

	small := NewCache(1 << 20)
	f, err := openOn(dev, "mem", Options{Cache: small})
	if err != nil {
		t.Fatal(err)
	}
	for range f.History().All() {
		if small.Used() > 1<<20 {
			t.Fatalf("%d bytes in a cache of a MiB", small.Used())
		}
	}
}

package folds_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jepsentest/go/histories"
)

// makeOps makes a well-formed history of n entries.
func makeOps(n int) []histories.Op {
	fs := []string{"read", "write", "cas"}
	ops := make([]histories.Op, n)
	for i := range ops {
		pair := i / 2
		op := histories.Op{Index: int64(i), Time: time.Duration(i) * 10, Process: histories.Process(pair % 5),
			F: fs[pair%3], Value: histories.Int(int64(i*7) % 13)}
		if i%2 == 1 {
			op.Type = histories.Type(1 + pair%3)
		}
		ops[i] = op
	}
	return ops
}

// source counts what is read of it, and can be made to wait and to fail.
type source struct {
	histories.Source
	reads  []atomic.Int64
	before func(chunk int)       // called before a chunk is read
	fail   func(chunk int) error // says whether reading it fails
	limit  atomic.Int64          // if not zero, the number of chunks there are so far
}

func (s *source) ReadChunk(i int, cols histories.Columns) (*histories.Chunk, error) {
	if s.before != nil {
		s.before(i)
	}
	s.reads[i].Add(1)
	if s.fail != nil {
		if err := s.fail(i); err != nil {
			return nil, err
		}
	}
	return s.Source.ReadChunk(i, cols)
}

func (s *source) NumChunks() int {
	if n := s.limit.Load(); n > 0 {
		return int(n)
	}
	return s.Source.NumChunks()
}

// total returns how many chunks were read.
func (s *source) total() int64 {
	var n int64
	for i := range s.reads {
		n += s.reads[i].Load()
	}
	return n
}

func counted(ops []histories.Op, chunk int) (histories.History, *source) {
	b := histories.Builder{ChunkSize: chunk}
	for _, op := range ops {
		if err := b.Add(op); err != nil {
			panic(err)
		}
	}
	s := &source{Source: b.History().Source()}
	s.reads = make([]atomic.Int64, s.Source.NumChunks())
	return histories.FromSource(s), s
}

// errAt is the error of a chunk.
type errAt int

func (e errAt) Error() string { return fmt.Sprintf("failure at %d", int(e)) }

var errInjected = errors.New("injected")

// noLeaks checks, when the test is over, that there are no more goroutines than before.
func noLeaks(t testing.TB) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() { checkGoroutines(t, before) })
}

// checkGoroutines waits for goroutines that have nothing left to do but return.
func checkGoroutines(t interface {
	Helper()
	Fatalf(string, ...any)
}, before int) {
	t.Helper()
	for i := 0; runtime.NumGoroutine() > before; i++ {
		if i > 2000 {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, and %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(time.Millisecond)
	}
}

// together runs functions at once and waits for them.
func together(fs ...func()) {
	var wg sync.WaitGroup
	for _, f := range fs {
		wg.Go(f)
	}
	wg.Wait()
}

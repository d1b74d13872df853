package folds_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/store"
	"pgregory.net/rapid"
)

// growing is a source whose chunks appear one after the other.
type growing struct {
	*source
	mu       sync.Mutex
	visible  int
	complete bool
	changed  chan struct{} // closed at the next change
}

func grow(ops []histories.Op, chunk int) (histories.History, *growing) {
	_, src := counted(ops, chunk)
	g := &growing{source: src, changed: make(chan struct{})}
	return histories.FromSource(g), g
}

func (g *growing) NumChunks() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.visible
}

// show makes n more chunks visible, and returns false if those were the last.
func (g *growing) show(n int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.source.NumChunks()
	g.visible = min(g.visible+n, all)
	g.complete = g.visible == all
	close(g.changed)
	g.changed = make(chan struct{})
	return !g.complete
}

func (g *growing) WaitChunks(ctx context.Context, n int) (bool, error) {
	for {
		g.mu.Lock()
		visible, complete, changed := g.visible, g.complete, g.changed
		g.mu.Unlock()
		if visible > n || complete {
			return visible > n, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// Live folds see every prefix of the history as it grows, and end with all of it.
func TestLiveSeesEveryPrefix(t *testing.T) {
	procs(t, 4)
	noLeaks(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 200).Draw(t, "ops")
		h, g := grow(makeOps(n), rapid.IntRange(1, 20).Draw(t, "chunk"))
		view := h
		if rapid.Bool().Draw(t, "filtered") {
			view = histories.Filter(h, histories.ByF("read"))
		}
		steps := rapid.SliceOfN(rapid.IntRange(1, 4), 0, 20).Draw(t, "growth")
		stopAt := rapid.IntRange(0, 12).Draw(t, "stop at chunk") // 0: never
		var all []int64
		var wg sync.WaitGroup
		run := func(kind string, stopAt int) {
			prefixes := 0
			var last []int64
			got, err := folds.Live(context.Background(), view, collect(kind, nil), folds.LiveOptions[[]int64]{After: func(s []int64) error {
				if len(s) <= len(last) || !slices.Equal(s[:len(last)], last) {
					t.Errorf("%s: %v follows %v", kind, s, last)
				}
				last = slices.Clone(s)
				if prefixes++; prefixes == stopAt {
					return folds.ErrStop
				}
				return nil
			}})
			if err != nil || !slices.Equal(got, last) {
				t.Errorf("%s: got %v, %v, and saw %v", kind, got, err, last)
			}
			if stopAt == 0 || prefixes < stopAt {
				if !slices.Equal(got, all) {
					t.Errorf("%s: got %v, want %v", kind, got, all)
				}
			}
		}
		for _, op := range makeOps(n) {
			if view == h || op.F == "read" {
				all = append(all, op.Index)
			}
		}
		for _, kind := range kinds {
			wg.Go(func() { run(kind, 0) })
			wg.Go(func() { run(kind, stopAt) })
		}
		for _, k := range steps {
			g.show(k)
		}
		for g.show(1) {
		}
		wg.Wait()
	})
}

func TestLiveEnds(t *testing.T) {
	noLeaks(t)
	for _, kind := range kinds {
		h, g := grow(makeOps(100), 10)
		g.show(3)
		seen := make(chan int, 100)
		after := func(s []int64) error { seen <- len(s); return nil }

		ctx, cancel := context.WithCancel(context.Background())
		together(func() {
			_, err := folds.Live(ctx, h, collect(kind, nil), folds.LiveOptions[[]int64]{After: after})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: context ends: got %v", kind, err)
			}
		}, func() {
			for n := 10; n <= 30; n += 10 {
				if got := <-seen; got != n {
					t.Errorf("%s: saw %d, want %d", kind, got, n)
				}
			}
			cancel()
		})

		fail := func(s []int64) error {
			if len(s) == 20 {
				return errInjected
			}
			return nil
		}
		if _, err := folds.Live(context.Background(), h, collect(kind, nil), folds.LiveOptions[[]int64]{After: fail}); !errors.Is(err, errInjected) {
			t.Errorf("%s: After fails: got %v", kind, err)
		}
		var p *folds.PanicError
		if _, err := folds.Live(context.Background(), h, collect(kind, nil), folds.LiveOptions[[]int64]{
			After: func([]int64) error { panic("no") }}); !errors.As(err, &p) {
			t.Errorf("%s: After panics: got %v", kind, err)
		}
		lost := func(context.Context, int) (bool, error) { return false, errInjected }
		if _, err := folds.Live(context.Background(), h, collect(kind, nil), folds.LiveOptions[[]int64]{Wait: lost}); !errors.Is(err, errInjected) {
			t.Errorf("%s: Wait fails: got %v", kind, err)
		}
	}
}

// A live fold follows a block log while it is being written.
func TestLiveOverABlockLog(t *testing.T) {
	noLeaks(t)
	const n = 2000
	path := filepath.Join(t.TempDir(), "history.jt")
	w, err := store.Create(path, store.Options{ChunkOps: 100, SealAfter: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	f, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	half := make(chan struct{}) // the fold has seen the first half
	together(func() {
		for i, op := range makeOps(n) {
			if i == n/2 {
				<-half // the second half is written only then
			}
			if err := w.Append(&op); err != nil {
				t.Error(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}, func() {
		var once sync.Once
		got, err := folds.Live(context.Background(), f.History(), collect("ordered", nil), folds.LiveOptions[[]int64]{
			After: func(s []int64) error {
				if len(s) >= n/2 {
					once.Do(func() { close(half) })
				}
				return nil
			},
			Wait: folds.Poll(f.History().Source(), time.Millisecond, func() (bool, error) {
				err := f.Refresh()
				return f.Complete(), err
			}),
		})
		wantAll(t, n, got, err)
	})
}

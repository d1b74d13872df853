package folds_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jepsentest/go/exec"
	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/histories"
)

// kinds are the ways in which a fold can combine.
var kinds = []string{"linear", "ordered", "associative"}

// collect is a fold of the given kind that collects the indices of all
// operations. hook, if not nil, is called for every chunk.
func collect(kind string, hook func(c *histories.Chunk)) folds.Fold[[]int64, []int64] {
	f := folds.Fold[[]int64, []int64]{
		Name: "collect " + kind,
		New:  func() []int64 { return nil },
		Chunk: func(s []int64, c *histories.Chunk) ([]int64, error) {
			if hook != nil {
				hook(c)
			}
			for i := range c.Len() {
				s = append(s, c.IndexAt(i))
			}
			return s, nil
		},
		Associative: kind == "associative",
		Result:      func(s []int64) ([]int64, error) { return s, nil },
	}
	if kind != "linear" {
		f.Merge = func(a, b []int64) ([]int64, error) { return append(a, b...), nil }
	}
	return f
}

func upTo(n int) []int64 {
	s := make([]int64, n)
	for i := range s {
		s[i] = int64(i)
	}
	return s
}

func wantAll(t *testing.T, n int, got []int64, err error) {
	t.Helper()
	if err != nil || !slices.Equal(got, upTo(n)) {
		t.Errorf("got %d operations, %v, want all %d in order", len(got), err, n)
	}
}

// waitFor waits until cond holds.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatal("timeout: ", what)
		}
	}
}

func procs(t *testing.T, n int) {
	old := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(old) })
}

// Folds that are started together read every chunk once.
func TestTogetherEveryChunkIsReadOnce(t *testing.T) {
	for _, p := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			procs(t, p)
			noLeaks(t)
			const n, chunk, many = 3000, 10, 9
			h, src := counted(makeOps(n), chunk)
			folds.SetPatience(h, time.Hour)
			src.before = func(int) { // the first reading begins when all are there
				waitFor(t, "all folds begin", func() bool { return folds.For(h).Stats().Active == many || src.total() > 0 })
			}
			var fs []func()
			for k := range many {
				fs = append(fs, func() {
					got, err := folds.Run(context.Background(), h, collect(kinds[k%3], nil))
					wantAll(t, n, got, err)
				})
			}
			together(fs...)
			for i := range src.reads {
				if k := src.reads[i].Load(); k != 1 {
					t.Errorf("chunk %d was read %d times", i, k)
				}
			}
			s := folds.For(h).Stats()
			if s.Passes != 1 || s.Folds != many || s.Read != n/chunk || s.Active != 0 {
				t.Errorf("got %+v", s)
			}
		})
	}
}

// A fold that joins half-way reads again what it missed, and no more.
func TestJoinHalfWayReadsWhatWasMissed(t *testing.T) {
	for _, first := range kinds {
		for _, second := range kinds {
			t.Run(first+" then "+second, func(t *testing.T) {
				procs(t, 2)
				noLeaks(t)
				const n, chunk = 1000, 10
				const chunks, half = n / chunk, n / chunk / 2
				h, src := counted(makeOps(n), chunk)
				folds.SetPatience(h, time.Hour)
				reached, joined := make(chan struct{}), make(chan struct{})
				var once sync.Once
				src.before = func(i int) {
					if i >= half {
						once.Do(func() { close(reached) })
						<-joined
					}
				}
				var missed int64
				together(func() {
					got, err := folds.Run(context.Background(), h, collect(first, nil))
					wantAll(t, n, got, err)
				}, func() {
					<-reached
					missed = src.total()
					go func() {
						waitFor(t, "the second joins", func() bool { return folds.For(h).Stats().Active == 2 })
						close(joined)
					}()
					got, err := folds.Run(context.Background(), h, collect(second, nil))
					wantAll(t, n, got, err)
				})
				// What the two workers were reading when it joined, or
				// began to read just before, may have been missed too.
				extra := src.total() - chunks
				if extra < missed-2 || extra > missed+4 || missed < half-2 {
					t.Errorf("%d chunks had been read when it joined, %d were read twice", missed, extra)
				}
			})
		}
	}
}

// However far behind the slowest chunk is, results and chunks in memory are bounded.
func TestSlowFirstChunkBoundsWhatIsHeld(t *testing.T) {
	procs(t, 4)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			noLeaks(t)
			const n, chunk = 20_000, 10
			h, src := counted(makeOps(n), chunk)
			release := make(chan struct{})
			var reduced, merged atomic.Int64
			f := collect(kind, func(c *histories.Chunk) {
				if c.Number == 0 {
					<-release
				}
				reduced.Add(1)
			})
			if merge := f.Merge; merge != nil {
				f.Merge = func(a, b []int64) ([]int64, error) {
					merged.Add(1)
					return merge(a, b)
				}
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				got, err := folds.Run(context.Background(), h, f)
				wantAll(t, n, got, err)
			}()
			// Nothing moves any more, or (associative) all else is done.
			last := int64(-1)
			waitFor(t, "it comes to rest", func() bool {
				time.Sleep(20 * time.Millisecond)
				now := src.total() + reduced.Load() + merged.Load()
				still := now == last && now > 0
				last = now
				return still
			})
			held := reduced.Load() - merged.Load()
			if most := int64(folds.Window(h) + folds.Depth(h)); held > most {
				t.Errorf("%d results wait to be merged, want at most %d", held, most)
			}
			if waiting := src.total() - reduced.Load(); waiting > int64(folds.Depth(h)) {
				t.Errorf("%d chunks were read and not reduced, want at most %d", waiting, folds.Depth(h))
			}
			close(release)
			<-done
		})
	}
}

// While one fold is blocked, others go on and finish, and then it does too.
func TestBlockedFoldIsLeftBehind(t *testing.T) {
	procs(t, 2)
	noLeaks(t)
	const n = 3000
	h, _ := counted(makeOps(n), 10)
	release := make(chan struct{})
	var blocked, others sync.WaitGroup
	for _, kind := range kinds {
		blocked.Go(func() {
			got, err := folds.Run(context.Background(), h, collect(kind, func(*histories.Chunk) { <-release }))
			wantAll(t, n, got, err)
		})
		for _, other := range kinds {
			others.Go(func() {
				got, err := folds.Run(context.Background(), h, collect(other, nil))
				wantAll(t, n, got, err)
			})
		}
	}
	others.Wait()
	close(release)
	blocked.Wait()
}

// Folds run inside folds, ten levels deep and in every chunk, also through tasks
// and behind a lock that others wait for.
func TestNestedFolds(t *testing.T) {
	procs(t, 2)
	noLeaks(t)
	const n = 400
	h, _ := counted(makeOps(n), 10)
	x := exec.New(2)

	var nest func(level int) func(*histories.Chunk)
	nest = func(level int) func(*histories.Chunk) {
		if level == 0 {
			return nil
		}
		return func(c *histories.Chunk) {
			if c.Number%13 != level%13 {
				return
			}
			got, err := folds.Run(context.Background(), h, collect(kinds[level%3], nest(level-1)))
			wantAll(t, n, got, err)
		}
	}
	t.Run("deep", func(t *testing.T) {
		var fs []func()
		for _, kind := range kinds {
			fs = append(fs, func() {
				got, err := folds.Run(context.Background(), h, collect(kind, nest(4)))
				wantAll(t, n, got, err)
			})
		}
		together(fs...)
	})
	t.Run("one chain of many levels", func(t *testing.T) {
		var chain func(level int) func(*histories.Chunk)
		chain = func(level int) func(*histories.Chunk) {
			return func(c *histories.Chunk) {
				if c.Number == 0 && level > 0 {
					got, err := folds.Run(context.Background(), h, collect(kinds[level%3], chain(level-1)))
					wantAll(t, n, got, err)
				}
			}
		}
		got, err := folds.Run(context.Background(), h, collect("ordered", chain(60)))
		wantAll(t, n, got, err)
	})
	t.Run("in every chunk", func(t *testing.T) {
		got, err := folds.Run(context.Background(), h, collect("ordered", func(*histories.Chunk) {
			got, err := folds.Run(context.Background(), h, collect("associative", nil))
			wantAll(t, n, got, err)
		}))
		wantAll(t, n, got, err)
	})
	t.Run("behind a lock", func(t *testing.T) {
		index := sync.OnceValue(func() []int64 {
			got, err := folds.Run(context.Background(), h, collect("ordered", nil))
			if err != nil {
				t.Error(err)
			}
			return got
		})
		var fs []func()
		for k := range 12 {
			fs = append(fs, func() {
				got, err := folds.Run(context.Background(), h, collect(kinds[k%3], func(*histories.Chunk) {
					if len(index()) != n {
						t.Error("the index is incomplete")
					}
				}))
				wantAll(t, n, got, err)
			})
		}
		together(fs...)
	})
	t.Run("in tasks", func(t *testing.T) {
		var fs []func()
		for k := range 6 {
			fs = append(fs, func() {
				task, err := exec.Go(x, "outer", func(ctx context.Context) ([]int64, error) {
					return folds.Run(ctx, h, collect(kinds[k%3], func(c *histories.Chunk) {
						if c.Number%10 != 0 {
							return
						}
						inner, err := exec.Go(x, "inner", func(ctx context.Context) ([]int64, error) {
							return folds.Run(ctx, h, collect("associative", nil))
						})
						if err != nil {
							t.Error(err)
							return
						}
						got, err := inner.Wait(ctx)
						wantAll(t, n, got, err)
					}))
				})
				if err != nil {
					t.Error(err)
					return
				}
				got, err := task.Wait(context.Background())
				wantAll(t, n, got, err)
			})
		}
		together(fs...)
	})
	t.Run("in merges", func(t *testing.T) {
		for _, kind := range kinds[1:] {
			f := collect(kind, nil)
			f.Merge = func(a, b []int64) ([]int64, error) {
				got, err := folds.Run(context.Background(), h, collect("linear", nil))
				wantAll(t, n, got, err)
				return append(a, b...), nil
			}
			got, err := folds.Run(context.Background(), h, f)
			wantAll(t, n, got, err)
		}
	})
}

// A chunk that cannot be read fails every fold that needs it, and no other.
func TestReadErrorsReachThoseWhoNeedTheChunk(t *testing.T) {
	procs(t, 2)
	noLeaks(t)
	const n = 1000
	h, src := counted(makeOps(n), 10)
	src.fail = func(i int) error {
		if i == 50 {
			return errInjected
		}
		return nil
	}
	early := histories.Slice(h, 0, 500)
	stopping := collect("linear", nil)
	stopping.Chunk = func(s []int64, c *histories.Chunk) ([]int64, error) {
		if s = append(s, c.First); len(s) == 20 {
			return s, folds.ErrStop
		}
		return s, nil
	}
	var fs []func()
	for _, kind := range kinds {
		fs = append(fs, func() {
			_, err := folds.Run(context.Background(), h, collect(kind, nil))
			if !errors.Is(err, errInjected) || !strings.Contains(err.Error(), "read chunk 50") || !strings.Contains(err.Error(), "collect "+kind) {
				t.Errorf("%s: got %v", kind, err)
			}
		}, func() {
			got, err := folds.Run(context.Background(), early, collect(kind, nil))
			wantAll(t, 500, got, err)
		}, func() {
			if got, err := folds.Run(context.Background(), h, stopping); err != nil || len(got) != 20 {
				t.Errorf("stops before: got %d, %v", len(got), err)
			}
		})
	}
	together(fs...)
}

// When the last fold leaves, nothing more is read.
func TestNobodyReadsForNobody(t *testing.T) {
	procs(t, 2)
	noLeaks(t)
	h, src := counted(makeOps(10_000), 10)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var fs []func()
	for _, kind := range kinds {
		fs = append(fs, func() {
			_, err := folds.Run(ctx, h, collect(kind, func(c *histories.Chunk) {
				if c.Number == 30 {
					cancel()
				}
			}))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: got %v", kind, err)
			}
		})
	}
	together(fs...)
	if n := src.total(); n > 500 {
		t.Errorf("%d chunks were read", n)
	}
	if _, err := folds.Run(ctx, h, collect("linear", nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: got %v", err)
	}
}

// A fold whose context ends within its only chunk has no result.
func TestCancelWithinAChunk(t *testing.T) {
	h, _ := counted(makeOps(5000), 5000)
	for _, kind := range kinds {
		ctx, cancel := context.WithCancel(context.Background())
		f := collect(kind, nil)
		f.Chunk = nil
		f.Step = func(s []int64, op histories.Op) ([]int64, error) {
			if op.Index == 600 {
				cancel()
			}
			if op.Index > 2000 {
				t.Error(kind, ": it goes on")
			}
			return append(s, op.Index), nil
		}
		if got, err := folds.Run(ctx, h, f); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %d operations, %v", kind, len(got), err)
		}
		cancel()
	}
}

// A fold whose context ends while it waits for another's read returns.
func TestCancelWhileWaiting(t *testing.T) {
	procs(t, 1)
	noLeaks(t)
	h, src := counted(makeOps(100), 10)
	reading, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	src.before = func(int) {
		once.Do(func() { close(reading) })
		<-release
	}
	go func() {
		<-reading
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		if _, err := folds.Run(ctx, h, collect("ordered", nil)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		close(release)
	}()
	got, err := folds.Run(context.Background(), h, collect("linear", nil))
	wantAll(t, 100, got, err)
}

func TestPanicsAndGoexit(t *testing.T) {
	procs(t, 2)
	noLeaks(t)
	const n = 500
	for _, kind := range kinds {
		for _, where := range []string{"New", "Chunk", "Merge", "Finish", "Result", "view"} {
			t.Run(kind+" "+where, func(t *testing.T) {
				h, _ := counted(makeOps(n), 10)
				boom := func() { panic(errInjected) }
				f, view := collect(kind, nil), h
				switch where {
				case "New":
					f.New = func() []int64 { boom(); return nil }
				case "Chunk":
					f.Chunk = func([]int64, *histories.Chunk) ([]int64, error) { boom(); return nil, nil }
				case "Merge":
					if kind == "linear" {
						t.Skip("it has none")
					}
					f.Merge = func(a, b []int64) ([]int64, error) { boom(); return nil, nil }
				case "Finish":
					f.Finish = func([]int64) ([]int64, error) { boom(); return nil, nil }
				case "Result":
					f.Result = func([]int64) ([]int64, error) { boom(); return nil, nil }
				case "view":
					view = histories.Map(h, func(o histories.Op) histories.Op { boom(); return o })
				}
				together(func() {
					_, err := folds.Run(context.Background(), view, f)
					var p *folds.PanicError
					if !errors.As(err, &p) || !errors.Is(err, errInjected) || !strings.Contains(err.Error(), "folder_test.go") ||
						!strings.Contains(err.Error(), "collect "+kind) {
						t.Errorf("got %v", err)
					}
				}, func() {
					got, err := folds.Run(context.Background(), h, collect(kind, nil))
					wantAll(t, n, got, err)
				})
			})
		}
		t.Run(kind+" Goexit", func(t *testing.T) {
			h, _ := counted(makeOps(n), 10)
			var returned, exited atomic.Bool
			together(func() {
				defer func() { exited.Store(true) }()
				_, err := folds.Run(context.Background(), h, collect(kind, func(c *histories.Chunk) {
					if c.Number >= 3 {
						runtime.Goexit()
					}
				}))
				returned.Store(true) // it was a helper that ended
				if !errors.Is(err, folds.ErrGoexit) {
					t.Errorf("got %v", err)
				}
			}, func() {
				got, err := folds.Run(context.Background(), h, collect(kind, nil))
				wantAll(t, n, got, err)
			})
			if !exited.Load() {
				t.Error("it hangs")
			}
			got, err := folds.Run(context.Background(), h, collect(kind, nil))
			wantAll(t, n, got, err)
		})
	}
}

// The error is the one a serial fold has, whichever chunk fails first in time.
func TestFirstErrorWins(t *testing.T) {
	procs(t, 4)
	for _, kind := range kinds {
		for range 50 {
			h, _ := counted(makeOps(1000), 10)
			f := collect(kind, nil)
			f.Chunk = func(s []int64, c *histories.Chunk) ([]int64, error) {
				if c.Number == 5 {
					time.Sleep(100 * time.Microsecond)
				}
				if c.Number >= 5 {
					return nil, errAt(c.Number)
				}
				return append(s, c.First), nil
			}
			_, err := folds.Run(context.Background(), h, f)
			var e errAt
			if !errors.As(err, &e) || e != 5 {
				t.Fatalf("%s: got %v", kind, err)
			}
		}
	}
}

// Summaries show which chunks nobody needs; views of a chunk are made once.
func TestViewsAreMadeOnceAndSkipChunks(t *testing.T) {
	procs(t, 2)
	const n, chunk = 1000, 10
	h, src := counted(makeOps(n), chunk)
	window := histories.Filter(h, histories.Between(2000, 2500)) // operations 200 to 249
	got, err := folds.Run(context.Background(), window, collect("ordered", nil))
	if err != nil || len(got) != 50 || src.total() != 5 {
		t.Errorf("between: got %d, %v, having read %d chunks", len(got), err, src.total())
	}
	slice := histories.Slice(h, 500, 530)
	got, err = folds.Run(context.Background(), slice, collect("associative", nil))
	if err != nil || len(got) != 30 || src.total() != 8 {
		t.Errorf("slice: got %d, %v, having read %d chunks", len(got), err, src.total())
	}
	if s := folds.For(slice).Stats(); s.Skipped != 2*n/chunk-8 || s.Read != 8 {
		t.Errorf("got %+v", s)
	}

	var mapped atomic.Int64
	const many = 6
	view := histories.Map(h, func(o histories.Op) histories.Op { mapped.Add(1); return o })
	folds.SetPatience(h, time.Hour)
	before := src.total()
	src.before = func(int) {
		waitFor(t, "all folds begin", func() bool { return folds.For(h).Stats().Active == many || src.total() > before })
	}
	var fs []func()
	for k := range many {
		fs = append(fs, func() {
			got, err := folds.Run(context.Background(), view, collect(kinds[k%3], nil))
			wantAll(t, n, got, err)
		})
	}
	together(fs...)
	if most := int64(n + 4*chunk); mapped.Load() > most {
		t.Errorf("%d operations were mapped for %d folds, want at most %d", mapped.Load(), many, most)
	}
}

// Many folds that come one after the other cannot keep an old one from its end.
func TestNoFoldStarves(t *testing.T) {
	procs(t, 2)
	noLeaks(t)
	const n = 600
	h, _ := counted(makeOps(n), 10)
	var done atomic.Bool
	var fs []func()
	for k := range 4 { // newcomers, without end
		fs = append(fs, func() {
			for !done.Load() {
				got, err := folds.Run(context.Background(), h, collect(kinds[k%3], nil))
				wantAll(t, n, got, err)
			}
		})
	}
	fs = append(fs, func() {
		defer done.Store(true)
		for _, kind := range kinds {
			got, err := folds.Run(context.Background(), h, collect(kind, func(*histories.Chunk) { runtime.Gosched() }))
			wantAll(t, n, got, err)
		}
	})
	together(fs...)
}

func TestTraceIsOneOfChrome(t *testing.T) {
	procs(t, 2)
	h, _ := counted(makeOps(200), 10)
	var buf bytes.Buffer
	stop := folds.For(h).Trace(&buf)
	for _, kind := range kinds {
		got, err := folds.Run(context.Background(), h, collect(kind, nil))
		wantAll(t, 200, got, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	var events []struct {
		Name, Cat, Ph string
		TS, Dur       float64
		PID, TID      int
		Args          map[string]int
	}
	if err := json.Unmarshal(buf.Bytes(), &events); err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, e := range events {
		n[e.Cat]++
		if e.Ph != "X" || e.TS < 0 || e.Dur < 0 || e.PID != 1 || e.TID < 1 || e.TID > 2 {
			t.Fatalf("got %+v", e)
		}
	}
	if n["read"] != 60 || n["reduce"] != 60 || n["merge"] != 38 {
		t.Errorf("got %v", n)
	}
	if err := folds.For(h).Trace(failingWriter{})(); !errors.Is(err, errInjected) {
		t.Errorf("writer fails: got %v", err)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errInjected }

func TestIncompleteFolds(t *testing.T) {
	h, _ := counted(makeOps(10), 10)
	for name, change := range map[string]func(f *folds.Fold[[]int64, []int64]){
		"New":    func(f *folds.Fold[[]int64, []int64]) { f.New = nil },
		"Step":   func(f *folds.Fold[[]int64, []int64]) { f.Chunk = nil },
		"Result": func(f *folds.Fold[[]int64, []int64]) { f.Result = nil },
	} {
		f := collect("ordered", nil)
		change(&f)
		if _, err := folds.Run(context.Background(), h, f); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: got %v", name, err)
		}
	}
}

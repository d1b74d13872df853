package folds_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/histories"
	"pgregory.net/rapid"
)

// trail is an accumulator that knows whose it is and what went into it. It
// panics if it is used by two goroutines at once, by another fold, or after it
// has been merged into another: accumulators must never be shared.
type trail struct {
	owner *plan
	inUse atomic.Bool
	dead  bool
	seen  []int64 // indices of operations, in order
	sum   int64
}

func (a *trail) enter(p *plan) {
	if !a.inUse.CompareAndSwap(false, true) {
		panic("accumulator used by two goroutines")
	}
	if a.owner != p || a.dead {
		panic("accumulator of another fold, or merged already")
	}
}

func (a *trail) leave() { a.inUse.Store(false) }

// plan is a random fold over a random view: its kind, and where it fails.
type plan struct {
	id      int
	view    histories.History
	kind    string // linear, ordered, associative
	step    bool   // Step, or Chunk
	delay   int    // yields before it starts
	fate    string // what happens at operation or merge number at
	at      int64
	nested  *plan // run inside the reduction that sees operation nestAt
	nestAt  int64
	inMerge bool // or inside the first merge
	once    sync.Once
	ctx     context.Context
	cancel  context.CancelFunc
	failed  atomic.Pointer[string] // what a nested fold did wrong
}

func drawPlan(t *rapid.T, id int, views []histories.History, depth int) *plan {
	p := &plan{
		id:    id,
		view:  rapid.SampledFrom(views).Draw(t, "view"),
		kind:  rapid.SampledFrom([]string{"linear", "ordered", "associative"}).Draw(t, "kind"),
		step:  rapid.Bool().Draw(t, "step"),
		delay: rapid.IntRange(0, 20).Draw(t, "delay"),
		fate:  rapid.SampledFrom([]string{"", "", "", "", "error", "panic", "stop", "stop merge", "error merge", "panic merge", "cancel"}).Draw(t, "fate"),
		at:    rapid.Int64Range(0, 150).Draw(t, "at"),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if depth > 0 && rapid.IntRange(0, 2).Draw(t, "nest") == 0 {
		p.nested = drawPlan(t, id*10+1, views, depth-1)
		p.nestAt = rapid.Int64Range(0, 100).Draw(t, "nestAt")
		p.inMerge = rapid.Bool().Draw(t, "inMerge")
	}
	return p
}

func (p *plan) nest(here bool) {
	if p.nested == nil || !here {
		return
	}
	p.once.Do(func() {
		if msg := p.nested.check(); msg != "" {
			p.failed.CompareAndSwap(nil, &msg)
		}
	})
}

// one takes one operation.
func (p *plan) one(a *trail, op histories.Op) (*trail, error) {
	a.seen = append(a.seen, op.Index)
	n, _ := op.Value.Int()
	a.sum = a.sum*31 + n
	if op.Index >= p.at {
		switch p.fate {
		case "error":
			return a, errAt(op.Index)
		case "panic":
			panic(errAt(op.Index))
		case "stop":
			return a, folds.ErrStop
		case "cancel":
			p.cancel()
		}
	}
	return a, nil
}

func (p *plan) fold() folds.Fold[*trail, []int64] {
	f := folds.Fold[*trail, []int64]{
		Name:        fmt.Sprintf("fold %d", p.id),
		New:         func() *trail { return &trail{owner: p} },
		Associative: p.kind == "associative",
		Finish: func(a *trail) (*trail, error) {
			a.enter(p)
			defer a.leave()
			return a, nil
		},
		Result: func(a *trail) ([]int64, error) {
			a.enter(p)
			return append(a.seen, a.sum), nil
		},
	}
	if p.step {
		f.Step = func(a *trail, op histories.Op) (*trail, error) {
			a.enter(p)
			defer a.leave()
			p.nest(!p.inMerge && op.Index >= p.nestAt)
			return p.one(a, op)
		}
	} else {
		f.Chunk = func(a *trail, c *histories.Chunk) (*trail, error) {
			a.enter(p)
			defer a.leave()
			p.nest(!p.inMerge && c.IndexAt(c.Len()-1) >= p.nestAt)
			for i := range c.Len() {
				if _, err := p.one(a, c.Op(i)); err != nil {
					return a, err
				}
			}
			return a, nil
		}
	}
	if p.kind != "linear" {
		f.Merge = func(a, b *trail) (*trail, error) {
			a.enter(p)
			defer a.leave()
			b.enter(p)
			b.dead = true
			p.nest(p.inMerge)
			// What happens depends on what was merged, not on how it was grouped.
			last := b.seen[len(b.seen)-1]
			if a.seen[len(a.seen)-1] >= p.at && p.fate == "stop merge" {
				return a, folds.ErrStop
			}
			if last >= p.at {
				switch p.fate {
				case "error merge":
					return a, errAt(0)
				case "panic merge":
					panic(errAt(0))
				}
			}
			a.seen = append(a.seen, b.seen...)
			a.sum = a.sum*1000003 + b.sum
			if p.kind == "associative" {
				a.sum = 0
			}
			return a, nil
		}
	}
	return f
}

// serial is the naive fold: what the result must be. It makes no use of the Folder.
func (p *plan) serial() (out []int64, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = v.(error)
		}
	}()
	copied := &plan{id: p.id, kind: p.kind, step: p.step, fate: p.fate, at: p.at, cancel: func() {}}
	f := copied.fold()
	var total *trail
	for c, err := range histories.Chunks(p.view, histories.AllColumns) {
		if err != nil {
			return nil, err
		}
		acc := total
		if p.kind != "linear" || acc == nil {
			acc = f.New()
		}
		stop := false
		for i := range c.Len() {
			if acc, err = copied.one(acc, c.Op(i)); err != nil {
				if stop = errors.Is(err, folds.ErrStop); stop {
					break
				}
				return nil, err
			}
		}
		switch {
		case p.kind == "linear":
			total = acc
		case total == nil:
			total, stop = acc, false
		default:
			total, err = f.Merge(total, acc)
			if stop = errors.Is(err, folds.ErrStop); err != nil && !stop {
				return nil, err
			}
		}
		if stop {
			break
		}
	}
	if total == nil {
		total = f.New()
	}
	return f.Result(total)
}

// check runs the fold and says what is wrong with its result.
func (p *plan) check() string {
	for range p.delay {
		runtime.Gosched()
	}
	got, err := folds.Run(p.ctx, p.view, p.fold())
	if msg := p.failed.Load(); msg != nil {
		return *msg
	}
	if p.fate == "cancel" && errors.Is(err, context.Canceled) {
		return ""
	}
	want, wantErr := p.serial()
	var e, wantE errAt
	switch {
	case errors.As(wantErr, &wantE):
		if !errors.As(err, &e) || e != wantE {
			return fmt.Sprintf("fold %d (%s, %s at %d): error %v, want %v", p.id, p.kind, p.fate, p.at, err, wantErr)
		}
	case wantErr != nil:
		return fmt.Sprintf("fold %d: serial: %v", p.id, wantErr)
	case err != nil:
		return fmt.Sprintf("fold %d (%s, %s at %d): %v", p.id, p.kind, p.fate, p.at, err)
	case p.kind == "associative":
		// The sum tells how merges were grouped.
		got, want = got[:len(got)-1], want[:len(want)-1]
	}
	if !slices.Equal(got, want) {
		return fmt.Sprintf("fold %d (%s, %s at %d):\ngot  %v\nwant %v", p.id, p.kind, p.fate, p.at, got, want)
	}
	return ""
}

// drawViews returns some views of h, the same ones for all folds of a case.
func drawViews(t *rapid.T, h histories.History) []histories.History {
	odd := histories.Filter(h, histories.Where(func(o histories.Op) bool { return o.Index%3 != 0 }))
	from := rapid.Int64Range(0, 100).Draw(t, "from")
	return []histories.History{
		h, h, h,
		odd,
		histories.Filter(h, histories.ByF("read")),
		histories.Filter(h, histories.ByF("none")),
		histories.Filter(h, histories.Between(300, 900)),
		histories.Slice(h, from, from+60),
		histories.Slice(odd, 10, 50),
		histories.Map(h, func(o histories.Op) histories.Op { o.Value = histories.Int(o.Index % 7); return o }),
	}
}

// TestFolderAgreesWithNaiveReduce runs random folds together over random views.
func TestFolderAgreesWithNaiveReduce(t *testing.T) {
	before := runtime.NumGoroutine()
	old := runtime.GOMAXPROCS(4)
	defer runtime.GOMAXPROCS(old)
	cases := 25 // for each of rapid's
	if testing.Short() {
		cases = 5
	}
	rapid.Check(t, func(t *rapid.T) {
		for range cases {
			checkCase(t)
		}
		checkGoroutines(t, before)
	})
}

func checkCase(t *rapid.T) {
	h, src := counted(makeOps(rapid.IntRange(0, 150).Draw(t, "ops")), rapid.IntRange(1, 30).Draw(t, "chunk"))
	if rapid.Bool().Draw(t, "impatient") {
		folds.SetPatience(h, time.Duration(rapid.IntRange(0, 1000).Draw(t, "patience")))
	}
	if rapid.Bool().Draw(t, "slow") {
		src.before = func(int) { runtime.Gosched() }
	}
	views := drawViews(t, h)
	plans := make([]*plan, rapid.IntRange(1, 6).Draw(t, "folds"))
	for i := range plans {
		plans[i] = drawPlan(t, i+1, views, 2)
	}
	msgs := make([]string, len(plans))
	var wg sync.WaitGroup
	for i, p := range plans {
		wg.Go(func() { msgs[i] = p.check() })
	}
	wg.Wait()
	for _, msg := range msgs {
		if msg != "" {
			t.Fatal(msg)
		}
	}
	if s := folds.For(h).Stats(); s.Active != 0 {
		t.Fatalf("%d folds are left", s.Active)
	}
}

package exec_test

import (
	"context"
	"runtime"
	"testing"
	"weak"

	"github.com/jepsentest/go/exec"
)

// A chain whose results total far more than the heap ever grows to.
func TestChainRunsInBoundedMemory(t *testing.T) {
	const (
		size  = 1 << 20
		links = 512
		limit = 64 * size
	)
	x := exec.New(2)
	defer x.Close()
	gate := make(chan struct{})
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)

	var peak uint64
	last := must(exec.Go(x, "root", func(context.Context) ([]byte, error) { <-gate; return make([]byte, size), nil }))
	for i := range links {
		last = must(exec.Then(x, "link", last, func(_ context.Context, in []byte) ([]byte, error) {
			out := make([]byte, len(in))
			out[0] = in[0] + 1
			if i%32 == 31 {
				runtime.GC()
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				peak = max(peak, now.HeapAlloc)
			}
			return out, nil
		}))
	}
	close(gate) // the whole chain is there before its first result
	out, err := last.Wait(within(t))
	if err != nil || out[0] != links%256 {
		t.Fatal(out[0], err)
	}
	if grown := int64(peak) - int64(before.HeapAlloc); grown > limit {
		t.Fatalf("%d MiB of results took %d MiB of memory", links*size>>20, grown>>20)
	}
}

// big is large enough to be allocated on its own, so that it can be seen to go.
type big struct{ _ [1 << 10]byte }

func collected(p weak.Pointer[big]) bool {
	for range 10 {
		runtime.GC()
		if p.Value() == nil {
			return true
		}
	}
	return false
}

// Once its function has done with an input, nothing keeps it, even as that function runs on.
func TestInputsAreReleased(t *testing.T) {
	x := exec.New(2)
	defer x.Close()
	produce := func() *exec.Task[*big] {
		return must(exec.Go(x, "", func(context.Context) (*big, error) { return new(big), nil }))
	}
	gone := func(ps ...*big) func() (bool, error) {
		var weaks []weak.Pointer[big]
		for _, p := range ps {
			weaks = append(weaks, weak.Make(p))
		}
		return func() (bool, error) {
			for _, w := range weaks {
				if !collected(w) {
					return false, nil
				}
			}
			return true, nil
		}
	}
	for name, task := range map[string]*exec.Task[bool]{
		"then": must(exec.Then(x, "", produce(), func(_ context.Context, a *big) (bool, error) {
			return gone(a)()
		})),
		"join2": must(exec.Join2(x, "", produce(), produce(), func(_ context.Context, a, b *big) (bool, error) {
			return gone(a, b)()
		})),
		"join3": must(exec.Join3(x, "", produce(), produce(), produce(), func(_ context.Context, a, b, c *big) (bool, error) {
			return gone(a, b, c)()
		})),
		"all": must(exec.All(x, "", []*exec.Task[*big]{produce(), produce()}, func(_ context.Context, all []*big) (bool, error) {
			return gone(all...)()
		})),
	} {
		if ok, err := task.Wait(within(t)); !ok || err != nil {
			t.Errorf("%s: released: %v, %v", name, ok, err)
		}
	}
}

// A handle keeps its result; a cancelled, rolled back or finished task keeps nothing else.
func TestWhatHandlesKeep(t *testing.T) {
	x := exec.New(1)
	defer x.Close()
	root := must(exec.Go(x, "", func(context.Context) (*big, error) { return new(big), nil }))
	p := weak.Make(must(root.Wait(within(t))))
	if collected(p) {
		t.Fatal("collected while its handle lives")
	}
	gate := make(chan struct{})
	blocker := must(exec.Go(x, "", func(context.Context) (int, error) { <-gate; return 0, nil }))
	pending := must(exec.Join2(x, "", root, blocker, func(context.Context, *big, int) (int, error) { return 0, nil }))
	var never *exec.Task[int]
	_ = x.Txn(func(tx *exec.Tx) error {
		never = must(exec.Join2(tx, "", root, blocker, func(context.Context, *big, int) (int, error) { return 0, nil }))
		return errStress
	})
	runtime.KeepAlive(root)
	if collected(p) {
		t.Fatal("collected while a pending task needs it")
	}
	pending.Cancel()
	if !collected(p) {
		t.Fatal("kept by a cancelled task")
	}
	close(gate)
	_, _ = blocker.Wait(within(t))
	for _, task := range []*exec.Task[int]{pending, never, blocker} {
		runtime.KeepAlive(task)
	}
}

package exec_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jepsentest/go/exec"
)

// within is a context that ends the test's waits long after they should have ended.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// must panics rather than fails the test, since it is also used in tasks.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func value[T any](v T) func(context.Context) (T, error) {
	return func(context.Context) (T, error) { return v, nil }
}

func failure(err error) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { return 0, err }
}

func same1[T any](_ context.Context, v T) (T, error) { return v, nil }

func TestResults(t *testing.T) {
	boom := errors.New("boom")
	x := exec.New(2)
	defer x.Close()
	ok := must(exec.Go(x, "ok", value(1)))
	fails := must(exec.Go(x, "fails", failure(boom)))
	never := func(context.Context, []int) (int, error) { panic("must not run") }

	for _, c := range []struct {
		name string
		task *exec.Task[int]
		want error
	}{
		{"value", ok, nil},
		{"error", fails, boom},
		{"panic", must(exec.Go(x, "", func(context.Context) (int, error) { panic(boom) })), boom},
		{"panic with nil", must(exec.Go(x, "", func(context.Context) (int, error) { panic(nil) })), new(runtime.PanicNilError)},
		{"goexit", must(exec.Go(x, "", func(context.Context) (int, error) { runtime.Goexit(); return 1, nil })), exec.ErrGoexit},
		{"no function", must(exec.Go[int](x, "", nil)), errors.ErrUnsupported},
		{"inherited", must(exec.All(x, "", []*exec.Task[int]{ok, fails, ok}, never)), boom},
		{"inherited twice", must(exec.Then(x, "", must(exec.Then(x, "", fails, same1)), same1)), boom},
		{"caught", must(exec.Catch(x, "", fails, func(_ context.Context, err error) (int, error) { return 1, nil })), nil},
		{"nothing to catch", must(exec.Catch(x, "", ok, func(context.Context, error) (int, error) { panic("must not run") })), nil},
		{"catch fails", must(exec.Catch(x, "", fails, func(context.Context, error) (int, error) { panic(boom) })), boom},
		{"same dependency twice", must(exec.Join2(x, "", ok, ok, func(_ context.Context, a, b int) (int, error) { return a * b, nil })), nil},
		{"no dependencies", must(exec.All(x, "", nil, func(_ context.Context, in []int) (int, error) { return 1 + len(in), nil })), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := c.task.Wait(within(t))
			switch want := c.want.(type) {
			case nil:
				if v != 1 || err != nil {
					t.Fatalf("got %v, %v; want 1", v, err)
				}
			case *runtime.PanicNilError:
				if !errors.As(err, &want) {
					t.Fatalf("got %v, want a nil panic", err)
				}
			default:
				if c.name == "no function" {
					if p, ok := errors.AsType[*exec.PanicError](err); !ok || !strings.Contains(p.Error(), "nil pointer") {
						t.Fatalf("got %v, want a nil dereference", err)
					}
				} else if v != 0 || !errors.Is(err, c.want) {
					t.Fatalf("got %v, %v; want %v", v, err, c.want)
				}
			}
		})
	}
}

// The error is that of the first failed dependency in the order given, not in time.
func TestInheritedErrorIsDeterministic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := errors.New("first"), errors.New("second")
		x := exec.New(2)
		defer x.Close()
		late := must(exec.Go(x, "late", func(context.Context) (int, error) {
			time.Sleep(time.Second)
			return 0, first
		}))
		early := must(exec.Go(x, "early", failure(second)))
		both := must(exec.Join2(x, "both", late, early, func(context.Context, int, int) (int, error) { return 0, nil }))
		if _, err := both.Wait(t.Context()); err != first {
			t.Fatalf("got %v", err)
		}
	})
}

func TestPanicStackShowsWhere(t *testing.T) {
	x := exec.New(1)
	defer x.Close()
	_, err := must(exec.Go(x, "", explode)).Wait(within(t))
	if p, ok := errors.AsType[*exec.PanicError](err); !ok || !strings.Contains(string(p.Stack), "exec_test.explode") {
		t.Fatalf("no stack of the panic in %v", err)
	}
}

func explode(context.Context) (int, error) { panic("boom") }

// Interfaces have a nil that carries no type.
func TestNilInterfaceResult(t *testing.T) {
	x := exec.New(1)
	defer x.Close()
	a := must(exec.Go(x, "", func(context.Context) (fmt.Stringer, error) { return nil, nil }))
	b := must(exec.Then(x, "", a, func(_ context.Context, s fmt.Stringer) (bool, error) { return s == nil, nil }))
	if isNil, err := b.Wait(within(t)); !isNil || err != nil {
		t.Fatal(isNil, err)
	}
}

func TestRefusals(t *testing.T) {
	x, y := exec.New(1), exec.New(1)
	defer y.Close()
	foreign := must(exec.Go(y, "", value(1)))
	gate := make(chan struct{})
	blocker := must(exec.Go(x, "", func(context.Context) (int, error) { <-gate; return 0, nil }))
	cancelled := must(exec.Go(x, "", value(1)))
	cancelled.Cancel()

	create := func(s exec.Submitter, dep *exec.Task[int]) error {
		task, err := exec.Then(s, "refused", dep, same1)
		if (task == nil) != (err != nil) {
			t.Fatalf("task %v and error %v", task, err)
		}
		return err
	}
	for name, c := range map[string]struct {
		dep  *exec.Task[int]
		want error
	}{
		"nil":       {nil, exec.ErrForeign},
		"foreign":   {foreign, exec.ErrForeign},
		"cancelled": {cancelled, exec.ErrCancelled},
	} {
		if err := create(x, c.dep); !errors.Is(err, c.want) {
			t.Errorf("%s dependency: got %v, want %v", name, err, c.want)
		}
	}
	// A refusal that the transaction survives leaves no trace.
	if err := x.Txn(func(tx *exec.Tx) error {
		if err := create(tx, cancelled); !errors.Is(err, exec.ErrCancelled) {
			t.Errorf("cancelled dependency: got %v", err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	for name, misuse := range map[string]func(tx *exec.Tx){
		"foreign": func(tx *exec.Tx) { tx.Cancel(foreign) },
		"nil":     func(tx *exec.Tx) { tx.State((*exec.Task[int])(nil)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s handle in a transaction did not panic", name)
				}
			}()
			_ = x.Txn(func(tx *exec.Tx) error { misuse(tx); return nil })
		}()
	}
	close(gate)
	if _, err := blocker.Wait(within(t)); err != nil {
		t.Error(err)
	}
	x.Close()
	if err := create(x, blocker); !errors.Is(err, exec.ErrClosed) {
		t.Errorf("closed: got %v", err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}

// Circles of waits are broken even where the pool could never get to rest without it.
func TestDeadlocksAreErrors(t *testing.T) {
	for _, size := range []int{1, 4} {
		t.Run(fmt.Sprint("size ", size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := exec.New(size)
				var a, b, c, self *exec.Task[int]
				ready := make(chan struct{})
				wait := func(on **exec.Task[int]) func(context.Context) (int, error) {
					return func(ctx context.Context) (int, error) {
						<-ready
						return (*on).Wait(ctx)
					}
				}
				a = must(exec.Go(x, "a", wait(&b)))
				b = must(exec.Go(x, "b", wait(&c)))
				// From here it goes on along a dependency.
				c = must(exec.Then(x, "c", a, same1))
				self = must(exec.Go(x, "self", wait(&self)))
				close(ready)
				for _, task := range []*exec.Task[int]{a, b, c, self} {
					if _, err := task.Wait(t.Context()); !errors.Is(err, exec.ErrDeadlock) {
						t.Errorf("%s: got %v", task.Name(), err)
					}
				}
				// The youngest of those that wait was told; the others have its error.
				if _, err := a.Wait(t.Context()); err.Error() != `wait for task 3 "c": deadlock` {
					t.Errorf("a: got %v", err)
				}
				late := must(exec.Go(x, "drain", func(ctx context.Context) (int, error) { return 0, x.Drain(ctx) }))
				if _, err := late.Wait(t.Context()); !errors.Is(err, exec.ErrDeadlock) {
					t.Errorf("drain in a task: got %v", err)
				}
				x.Close()
			})
		})
	}
}

// Waiting for a task of another executor gives up the slot too, and is no deadlock.
func TestWaitAcrossExecutors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := exec.New(1), exec.New(1)
		outer := must(exec.Go(x, "outer", func(ctx context.Context) (int, error) {
			middle := must(exec.Go(y, "middle", func(ctx context.Context) (int, error) {
				return must(exec.Go(x, "inner", value(7))).Wait(ctx)
			}))
			return middle.Wait(ctx)
		}))
		if v, err := outer.Wait(t.Context()); v != 7 || err != nil {
			t.Fatal(v, err)
		}
		x.Close()
		y.Close()
	})
}

// A recursion of waits far deeper than the pool is wide ends.
func TestNestedWaits(t *testing.T) {
	x := exec.New(2)
	defer x.Close()
	var fib func(n int) func(context.Context) (int, error)
	fib = func(n int) func(context.Context) (int, error) {
		return func(ctx context.Context) (int, error) {
			if s := x.Stats(); s.Running > x.Size() {
				return 0, fmt.Errorf("%d run", s.Running)
			}
			if n < 2 {
				return n, nil
			}
			a, b := must(exec.Go(x, "", fib(n-1))), must(exec.Go(x, "", fib(n-2)))
			v, err := a.Wait(ctx)
			if err != nil {
				return 0, err
			}
			w, err := b.Wait(ctx)
			return v + w, err
		}
	}
	if v, err := must(exec.Go(x, "", fib(14))).Wait(within(t)); v != 377 || err != nil {
		t.Fatal(v, err)
	}
}

// The oldest goes first, and one that waited is as old as its id says.
func TestOldestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := exec.New(1)
		gate := make(chan struct{})
		var order []string // written by the one that has the only slot
		note := func(s string) { order = append(order, s) }
		first := must(exec.Go(x, "", func(ctx context.Context) (int, error) {
			<-gate
			child := must(exec.Go(x, "", func(context.Context) (int, error) { note("child"); return 0, nil }))
			must(exec.Go(x, "", func(context.Context) (int, error) { note("second child"); return 0, nil }))
			_, err := child.Wait(ctx)
			note("resumed")
			return 0, err
		}))
		must(exec.Go(x, "", func(context.Context) (int, error) { note("a"); return 0, nil }))
		must(exec.Then(x, "", first, func(context.Context, int) (int, error) { note("b"); return 0, nil }))
		must(exec.Go(x, "", func(context.Context) (int, error) { note("c"); return 0, nil }))
		close(gate)
		if err := x.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Join(order, ", "), "a, c, child, resumed, b, second child"; got != want {
			t.Fatalf("got %s; want %s", got, want)
		}
	})
}

func TestWaitHonoursContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := exec.New(1)
		gate := make(chan struct{})
		slow := must(exec.Go(x, "slow", func(context.Context) (int, error) { <-gate; return 1, nil }))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := slow.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait: got %v", err)
		}
		if err := x.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drain: got %v", err)
		}
		close(gate)
		if _, err := slow.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := slow.Wait(ctx); err != nil {
			t.Errorf("a result that is there was not returned: %v", err)
		}
		x.Close()
	})
}

// A context that outlived its function, or is used on another goroutine, harms nothing.
func TestStrayContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := exec.New(1)
		gate := make(chan struct{})
		var stray context.Context
		strays := make(chan error, 3)
		blocker := must(exec.Go(x, "", func(context.Context) (int, error) { <-gate; return 0, nil }))
		must(exec.Go(x, "", func(ctx context.Context) (int, error) {
			stray = context.WithoutCancel(ctx)
			last := must(exec.Go(x, "", func(context.Context) (int, error) { time.Sleep(time.Minute); return 0, nil }))
			for range cap(strays) {
				go func() {
					_, err := last.Wait(stray)
					strays <- err
				}()
			}
			_, err := last.Wait(ctx)
			return 0, err
		}))
		close(gate)
		if _, err := blocker.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range cap(strays) {
			if err := <-strays; err != nil {
				t.Error(err)
			}
		}
		if err := x.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := must(exec.Go(x, "", value(1))).Wait(stray); err != nil {
			t.Error(err)
		}
		if err := exec.CheckInvariants(x); err != nil {
			t.Error(err)
		}
		x.Close()
	})
}

// Neither an error nor a cancel needs stack or quadratic time for a long chain.
func TestLongChains(t *testing.T) {
	const n = 100_000
	boom := errors.New("boom")
	for name, act := range map[string]func(root *exec.Task[int], gate chan struct{}) error{
		"error": func(_ *exec.Task[int], gate chan struct{}) error { close(gate); return boom },
		"cancel": func(root *exec.Task[int], gate chan struct{}) error {
			root.Cancel()
			close(gate)
			return exec.ErrCancelled
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := exec.New(2)
			defer x.Close()
			gate := make(chan struct{})
			root := must(exec.Go(x, "root", func(context.Context) (int, error) { <-gate; return 0, boom }))
			last := root
			for range n {
				last = must(exec.Then(x, "link", last, same1))
			}
			want := act(root, gate)
			if _, err := last.Wait(within(t)); !errors.Is(err, want) {
				t.Fatal(err)
			}
		})
	}
}

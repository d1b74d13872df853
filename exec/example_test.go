package exec_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jepsentest/go/exec"
)

func ExampleGo() {
	x := exec.New(2)
	defer x.Close()

	t, err := exec.Go(x, "answer", func(context.Context) (int, error) { return 42, nil })
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Wait(context.Background()))
	// Output: 42 <nil>
}

func ExampleThen() {
	x := exec.New(2)
	defer x.Close()

	word, _ := exec.Go(x, "word", func(context.Context) (string, error) { return "fold", nil })
	size, _ := exec.Then(x, "size", word, func(_ context.Context, w string) (int, error) { return len(w), nil })
	fmt.Println(size.Wait(context.Background()))
	// Output: 4 <nil>
}

func ExampleJoin2() {
	x := exec.New(2)
	defer x.Close()

	word, _ := exec.Go(x, "word", func(context.Context) (string, error) { return "ab", nil })
	times, _ := exec.Go(x, "times", func(context.Context) (int, error) { return 3, nil })
	t, _ := exec.Join2(x, "repeat", word, times, func(_ context.Context, w string, n int) (string, error) {
		return strings.Repeat(w, n), nil
	})
	fmt.Println(t.Wait(context.Background()))
	// Output: ababab <nil>
}

func ExampleJoin3() {
	x := exec.New(2)
	defer x.Close()

	digit := func(n int) func(context.Context) (int, error) {
		return func(context.Context) (int, error) { return n, nil }
	}
	a, _ := exec.Go(x, "a", digit(1))
	b, _ := exec.Go(x, "b", digit(2))
	c, _ := exec.Go(x, "c", digit(3))
	t, _ := exec.Join3(x, "number", a, b, c, func(_ context.Context, a, b, c int) (int, error) {
		return 100*a + 10*b + c, nil
	})
	fmt.Println(t.Wait(context.Background()))
	// Output: 123 <nil>
}

func ExampleAll() {
	x := exec.New(2)
	defer x.Close()

	var squares []*exec.Task[int]
	for i := range 4 {
		t, _ := exec.Go(x, "square", func(context.Context) (int, error) { return i * i, nil })
		squares = append(squares, t)
	}
	t, _ := exec.All(x, "collect", squares, func(_ context.Context, ns []int) ([]int, error) { return ns, nil })
	fmt.Println(t.Wait(context.Background()))
	// Output: [0 1 4 9] <nil>
}

// The error skips the task in between and ends at the catch.
func ExampleCatch() {
	x := exec.New(2)
	defer x.Close()

	read, _ := exec.Go(x, "read", func(context.Context) (int, error) { return 0, errors.New("torn block") })
	next, _ := exec.Then(x, "next", read, func(_ context.Context, n int) (int, error) {
		fmt.Println("never printed")
		return n + 1, nil
	})
	safe, _ := exec.Catch(x, "safe", next, func(_ context.Context, err error) (int, error) {
		fmt.Println("caught:", err)
		return -1, nil
	})
	fmt.Println(safe.Wait(context.Background()))
	// Output:
	// caught: torn block
	// -1 <nil>
}

// Either every task of the transaction exists, or none ever did.
func ExampleExecutor_Txn() {
	x := exec.New(2)
	defer x.Close()

	hello := func(context.Context) (string, error) {
		fmt.Println("never printed")
		return "hello", nil
	}
	var t *exec.Task[string]
	err := x.Txn(func(tx *exec.Tx) (err error) {
		if t, err = exec.Go(tx, "hello", hello); err != nil {
			return err
		}
		return errors.New("changed my mind")
	})
	fmt.Println(err)
	fmt.Println(t.State())
	// Output:
	// changed my mind
	// cancelled
}

// A pending task is replaced in one step, so that either it or its replacement runs.
func ExampleTx_Cancel() {
	x := exec.New(1)
	defer x.Close()

	gate := make(chan struct{})
	input, _ := exec.Go(x, "input", func(context.Context) (int, error) {
		<-gate
		return 20, nil
	})
	plain, _ := exec.Then(x, "plain", input, func(_ context.Context, n int) (int, error) { return n, nil })
	report, _ := exec.Then(x, "report", plain, func(_ context.Context, n int) (int, error) { return n, nil })

	var fused *exec.Task[int]
	err := x.Txn(func(tx *exec.Tx) (err error) {
		if tx.State(plain) != exec.Pending {
			return errors.New("too late")
		}
		fmt.Println("cancelled:", tx.Cancel(plain)) // and the report, which depends on it
		fused, err = exec.Then(tx, "fused", input, func(_ context.Context, n int) (int, error) { return 2*n + 2, nil })
		return err
	})
	close(gate)
	fmt.Println(err)
	fmt.Println(fused.Wait(context.Background()))
	fmt.Println(report.Wait(context.Background()))
	// Output:
	// cancelled: 2
	// <nil>
	// 42 <nil>
	// 0 task 3 "report": task cancelled
}

func ExampleTx_State() {
	x := exec.New(2)
	defer x.Close()

	t, _ := exec.Go(x, "t", func(context.Context) (int, error) { return 1, nil })
	_, _ = t.Wait(context.Background())
	_ = x.Txn(func(tx *exec.Tx) error {
		u, err := exec.Then(tx, "u", t, func(_ context.Context, n int) (int, error) { return n, nil })
		if err != nil {
			return err
		}
		fmt.Println(tx.State(t), tx.State(u))
		return nil
	})
	// Output: done pending
}

// A running task is told by its context, and its result is dropped.
func ExampleTask_Cancel() {
	x := exec.New(1)

	started := make(chan struct{})
	t, _ := exec.Go(x, "t", func(ctx context.Context) (int, error) {
		close(started)
		<-ctx.Done()
		fmt.Println("told:", context.Cause(ctx))
		return 1, nil
	})
	<-started
	fmt.Println("cancelled:", t.Cancel())
	_, err := t.Wait(context.Background())
	x.Close() // returns when the function has
	fmt.Println(errors.Is(err, exec.ErrCancelled))
	// Output:
	// cancelled: 1
	// told: task cancelled
	// true
}

// The pool has one slot, and yet the outer task can wait for the inner one.
func ExampleTask_Wait() {
	x := exec.New(1)
	defer x.Close()

	outer, _ := exec.Go(x, "outer", func(ctx context.Context) (string, error) {
		inner, err := exec.Go(x, "inner", func(context.Context) (string, error) { return "inner", nil })
		if err != nil {
			return "", err
		}
		s, err := inner.Wait(ctx)
		return "outer of " + s, err
	})
	fmt.Println(outer.Wait(context.Background()))
	// Output: outer of inner <nil>
}

func ExamplePanicError() {
	x := exec.New(1)
	defer x.Close()

	t, _ := exec.Go(x, "t", func(context.Context) (int, error) { panic("broken invariant") })
	_, err := t.Wait(context.Background())
	if p, ok := errors.AsType[*exec.PanicError](err); ok {
		fmt.Println(p.Value, len(p.Stack) > 0)
	}
	// Output: broken invariant true
}

func ExampleExecutor_Drain() {
	x := exec.New(2)
	for range 10 {
		_, _ = exec.Go(x, "t", func(context.Context) (int, error) { return 1, nil })
	}
	fmt.Println(x.Drain(context.Background()))
	stats := x.Stats()
	fmt.Println(stats.Pending, stats.Running, stats.Waiting)
	// Output:
	// <nil>
	// 0 0 0
}

func ExampleExecutor_Close() {
	x := exec.New(2)
	x.Close()
	_, err := exec.Go(x, "late", func(context.Context) (int, error) { return 1, nil })
	fmt.Println(err)
	// Output: create task "late": executor closed
}

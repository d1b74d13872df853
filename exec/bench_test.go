package exec_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jepsentest/go/exec"
)

func report(b *testing.B, tasks int) {
	b.ReportMetric(float64(tasks)*float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

// Submit and run tiny independent tasks, in batches so that the queue stays short or long.
func BenchmarkIndependent(b *testing.B) {
	for _, batch := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprint("batch=", batch), func(b *testing.B) {
			b.ReportAllocs()
			x := exec.New(0)
			for b.Loop() {
				for range batch {
					_, _ = exec.Go(x, "t", value(1))
				}
				_ = x.Drain(context.Background())
			}
			report(b, batch)
		})
	}
}

// The same in one transaction for each batch.
func BenchmarkTransaction(b *testing.B) {
	const batch = 1000
	b.ReportAllocs()
	x := exec.New(0)
	for b.Loop() {
		_ = x.Txn(func(tx *exec.Tx) error {
			for range batch {
				_, _ = exec.Go(tx, "t", value(1))
			}
			return nil
		})
		_ = x.Drain(context.Background())
	}
	report(b, batch)
}

// A chain: each task needs the one before.
func BenchmarkChain(b *testing.B) {
	const links = 1000
	b.ReportAllocs()
	x := exec.New(0)
	for b.Loop() {
		last, _ := exec.Go(x, "root", value(1))
		for range links - 1 {
			last, _ = exec.Then(x, "link", last, same1)
		}
		_, _ = last.Wait(context.Background())
	}
	report(b, links)
}

// A task that creates a task and waits for it.
func BenchmarkNestedWait(b *testing.B) {
	b.ReportAllocs()
	x := exec.New(0)
	for b.Loop() {
		outer, _ := exec.Go(x, "outer", func(ctx context.Context) (int, error) {
			inner, err := exec.Go(x, "inner", value(1))
			if err != nil {
				return 0, err
			}
			return inner.Wait(ctx)
		})
		_, _ = outer.Wait(context.Background())
	}
	report(b, 2)
}

// Cancel and roll back a pending task.
func BenchmarkCancel(b *testing.B) {
	x := exec.New(1)
	gate := make(chan struct{})
	root, _ := exec.Go(x, "root", func(context.Context) (int, error) { <-gate; return 0, nil })
	for b.Loop() {
		t, _ := exec.Then(x, "t", root, same1)
		t.Cancel()
	}
	close(gate)
	report(b, 1)
}

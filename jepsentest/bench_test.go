package jepsentest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/jepsentest"
	"github.com/jepsentest/go/jepsentest/workload"
)

// BenchmarkScheduler runs whole tests with clients that do nothing, the history
// going to disk: rows R1 and R2 of the table of benchmarks. ops/s are invocations.
func BenchmarkScheduler(b *testing.B) {
	nothing := jepsentest.ClientFunc(func(_ context.Context, op *histories.Op) (histories.Value, error) { return op.Value, nil })
	for _, threads := range []int{100, 1024} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			const n = 500_000
			for b.Loop() {
				rec, err := jepsentest.Run(b.Context(), jepsentest.Test{
					Concurrency: threads, StoreDir: b.TempDir(), Client: nothing, OpTimeout: -1,
					Generator: dsl.Clients(dsl.Limit(n, workload.Append(workload.AppendOptions{}).Generator)),
				})
				if err != nil {
					b.Fatal(err)
				}
				if err := rec.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}

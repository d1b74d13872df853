package readme

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/folds/stats"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/jepsentest"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestCounter(t *testing.T) { jepsentest.RunSuite(t, "counter") }

var counter atomic.Int64 // the database under test

func invoke(_ context.Context, op *histories.Op) (histories.Value, error) {
	if op.F == "add" {
		counter.Add(1)
		return op.Value, nil
	}
	return histories.Int(counter.Load()), nil
}

var _ = It("never shows fewer additions than were acknowledged", func(ctx SpecContext) {
	rec := jepsentest.RunSpec(ctx, jepsentest.Test{
		Name:        "counter",
		Concurrency: 5,
		Client:      jepsentest.ClientFunc(invoke),
		Generator: dsl.Clients(dsl.TimeLimit(2*time.Second, dsl.Stagger(time.Millisecond, dsl.Mix(
			dsl.Repeat(dsl.Invocation("add", histories.Int(1))),
			dsl.Repeat(dsl.Invocation("read", histories.Nil())),
		)))),
	})
	Expect(rec).To(jepsentest.SatisfyAllChecks(stats.Checker()))
	Expect(rec).To(HaveMonotonicReads())
})

package sim_test

import (
	"testing"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/jepsentest"
	"github.com/jepsentest/go/jepsentest/sim"
	"github.com/jepsentest/go/jepsentest/workload"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestSim(t *testing.T) { jepsentest.RunSuite(t, "simulated databases") }

var _ = Describe("Lists", func() {
	record := func(ctx SpecContext, bug sim.Bug) *jepsentest.Recording {
		GinkgoHelper()
		w := workload.Append(workload.AppendOptions{})
		db := sim.NewLists(sim.ListOptions{Bug: bug, Seed: 11})
		return jepsentest.RunSpec(ctx, jepsentest.Test{
			Name: "sim-lists", StoreDir: GinkgoT().TempDir(), Concurrency: 10, Seed: 11, MinRate: 100,
			Client:    jepsentest.ClientFunc(db.Invoke),
			Generator: dsl.Clients(dsl.Phases(dsl.TimeLimit(time.Second, w.Generator), w.Final)),
		})
	}

	It("is free of anomalies when it is honest", func(ctx SpecContext) {
		rec := record(ctx, sim.NoBug)
		Expect(rec).To(jepsentest.SatisfyAllChecks(workload.Append(workload.AppendOptions{}).Checkers...))
		Expect(rec).To(jepsentest.HaveNoAnomalies())
		Expect(rec.History).NotTo(jepsentest.HaveAnomaly("G1a"))
	})

	DescribeTable("is caught when it",
		func(ctx SpecContext, bug sim.Bug, anomaly string, others ...string) {
			rec := record(ctx, bug)
			Expect(rec).To(jepsentest.HaveAnomaly(anomaly))
			Expect(rec).NotTo(jepsentest.HaveNoAnomalies())
			Expect(rec).To(jepsentest.HaveNoAnomalies(others...))
		},
		Entry("shows what it aborts", sim.AbortedRead, "G1a", "internal", "duplicate-elements"),
		Entry("loses updates", sim.LostUpdate, "lost-update", "G1a", "internal", "duplicate-elements"),
		Entry("serves stale reads", sim.StaleRead, "G-single-item-realtime", "G1a", "incompatible-order", "lost-update"),
	)
})

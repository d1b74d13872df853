package etcd_test

import (
	"flag"
	"testing"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/jepsentest"
	"github.com/jepsentest/go/jepsentest/nemesis"
	"github.com/jepsentest/go/jepsentest/workload"
	"github.com/jepsentest/go/suites/etcd"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var (
	version = flag.String("etcd.version", etcd.DefaultVersion, "the `version` of etcd to build and test")
	image   = flag.String("etcd.image", "", "test this `image` from a registry instead")
)

func TestEtcd(t *testing.T) { jepsentest.RunSuite(t, "etcd") }

// overhead is how long a spec takes besides its main phase: to start the
// cluster, heal it, read everything at the end, check, and clean up.
const overhead = 40 * time.Second

// calm is how long the cluster is left alone at the beginning.
const calm = time.Second

// scenario is what the specs below have in common.
type scenario struct {
	name     string
	nodes    int
	main     time.Duration // of the main phase
	rate     float64       // operations per second
	interval time.Duration // between the operations of a nemesis
	faults   func(nemesis.Options) nemesis.Package
	opts     jepsentest.Options
}

// With no majority there is no progress, and the faults see to it that often
// there is none: what succeeds then depends on luck. Without faults there is no
// excuse.
const (
	minRateUnderFaults = 1.0  // successful operations per second
	minShareOtherwise  = 0.05 // of the rate that is aimed at
)

// test puts a scenario together.
func (s scenario) test() jepsentest.Test {
	if s.opts.Nodes > 0 {
		s.nodes = s.opts.Nodes
	}
	if s.opts.Rate > 0 {
		s.rate = s.opts.Rate
	}
	nodes := jepsentest.NodeNames(s.nodes)
	threads, err := s.opts.Threads(len(nodes), "10")
	Expect(err).NotTo(HaveOccurred())

	db := &etcd.DB{Image: etcd.Image(*version, *image), KeepNodes: s.opts.KeepNodes}
	w := workload.Append(workload.AppendOptions{})
	main := dsl.Clients(dsl.Stagger(time.Duration(float64(time.Second)/s.rate), w.Generator))
	t := jepsentest.Test{
		Name:        "etcd-append-" + s.name,
		Nodes:       nodes,
		DB:          db,
		Client:      etcd.NewAppendClient(db),
		Concurrency: threads,
		OpTimeout:   2 * time.Second,
		MinRate:     min(minRateUnderFaults, s.rate*minShareOtherwise),
		Options:     map[string]string{"etcd.version": *version, "etcd.image": *image},
	}
	if s.faults == nil {
		t.MinRate = s.rate * minShareOtherwise
		t.Generator = dsl.Phases(dsl.TimeLimit(s.main, main), dsl.Clients(w.Final))
		return t
	}
	o := nemesis.Options{
		Nodes:     nodes,
		System:    func() nemesis.System { return nemesis.Of(db.Cluster()) },
		Interval:  s.interval,
		Primaries: db.Primaries,
	}
	faults := s.faults(o)
	t.Nemesis = faults.Nemesis
	t.Generator = dsl.Phases(
		dsl.TimeLimit(s.main, dsl.Any(main, dsl.Nemesis(dsl.Seq(dsl.Sleep(calm), faults.Generator)))),
		dsl.Nemesis(dsl.Seq(dsl.Log("healing"), faults.Final, dsl.Sleep(2*time.Second))),
		dsl.Clients(w.Final),
	)
	return t
}

// faults returns all faults that are possible: a single node has no network to cut.
func faults(o nemesis.Options) []nemesis.Package {
	all := []nemesis.Package{nemesis.Kill(o), nemesis.Pause(o)}
	if len(o.Nodes) > 1 {
		all = append(all, nemesis.Partition(o))
	}
	return all
}

func inTurn(o nemesis.Options) nemesis.Package { return nemesis.InTurn(o.Interval, faults(o)...) }
func atOnce(o nemesis.Options) nemesis.Package { return nemesis.Compose(faults(o)...) }

func partitions(o nemesis.Options) nemesis.Package {
	if len(o.Nodes) < 2 {
		Skip("a single node has no network to cut")
	}
	return nemesis.Partition(o)
}

var _ = Describe("etcd", func() {
	checks := workload.Append(workload.AppendOptions{}).Checkers

	run := func(ctx SpecContext, s scenario) *jepsentest.Recording {
		GinkgoHelper()
		opts, err := jepsentest.Flags()
		Expect(err).NotTo(HaveOccurred())
		s.opts = opts
		s.main = jepsentest.MainPhase(s.main, overhead)
		return jepsentest.RunSpec(ctx, s.test())
	}

	It("keeps transactions isolated while nodes are killed, paused and partitioned",
		Label("short", "workload:append"), jepsentest.WithNemesis("all"), jepsentest.Nodes(3), func(ctx SpecContext) {
			rec := run(ctx, scenario{
				name: "short", nodes: 3, main: 10 * time.Second, rate: 200, interval: time.Second,
				faults: inTurn,
			})
			Expect(rec).To(jepsentest.SatisfyAllChecks(checks...))
		})

	DescribeTable("keeps transactions isolated under", Label("long", "workload:append"), jepsentest.Nodes(5),
		func(ctx SpecContext, name string, faults func(nemesis.Options) nemesis.Package) {
			rec := run(ctx, scenario{
				name: name, nodes: 5, main: time.Minute, rate: 500, interval: 5 * time.Second, faults: faults,
			})
			Expect(rec).To(jepsentest.SatisfyAllChecks(checks...))
		},
		Entry("no faults", Label("nemesis:none"), "none", nil),
		Entry("kills", Label("nemesis:kill"), "kill", nemesis.Kill),
		Entry("pauses", Label("nemesis:pause"), "pause", nemesis.Pause),
		Entry("partitions", Label("nemesis:partition"), "partition", partitions),
		Entry("all faults at once", Label("nemesis:all"), "all", atOnce),
	)
})

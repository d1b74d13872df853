// Package nemesis brings faults about: it kills and pauses nodes and cuts the
// network between them, on a schedule, and undoes it all at the end.
//
// A [Package] holds what belongs to a fault: who carries it out, when, and how it
// ends. Packages are composed, and the parts put into a test:
//
//	faults := nemesis.Compose(
//		nemesis.Partition(o),
//		nemesis.Kill(o),
//		nemesis.Pause(o),
//	)
//	test.Nemesis = faults.Nemesis
//	test.Generator = dsl.Phases(
//		dsl.TimeLimit(time.Minute, dsl.Any(dsl.Clients(work), dsl.Nemesis(faults.Generator))),
//		dsl.Nemesis(faults.Final),
//		dsl.Clients(finalReads),
//	)
//
// Every operation says in its value what it is to do, so that a schedule is
// determined by the seed: {"n1" ["n2" "n3"]}, a node and whom it does not hear;
// ["n1" "n3"], nodes to kill. Only :primaries is found out when it is done.
package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/jepsentest/cluster"
)

// System is what faults act upon: the nodes of a cluster, by name. See [Of].
type System interface {
	Kill(ctx context.Context, node string) error
	Start(ctx context.Context, node string) error
	Pause(ctx context.Context, node string) error
	Resume(ctx context.Context, node string) error
	State(ctx context.Context, node string) (cluster.State, error)
	// Partition declares the whole state of the network; Heal makes it whole.
	Partition(ctx context.Context, g cluster.Grudge) error
	Heal(ctx context.Context) error
	// PartitionCounters returns how many packets each node has dropped so far.
	PartitionCounters(ctx context.Context) (map[string]uint64, error)
	// CanPartition returns an error that says why the network cannot be cut, if so.
	CanPartition() error
}

// Of makes a [System] of a cluster.
func Of(c *cluster.Cluster) System { return system{c} }

type system struct{ *cluster.Cluster }

func (s system) on(node string, f func(*cluster.Node) error) error {
	n := s.Node(node)
	if n == nil {
		return fmt.Errorf("no node is called %q", node)
	}
	return f(n)
}

func (s system) Kill(ctx context.Context, node string) error {
	return s.on(node, func(n *cluster.Node) error { return n.Kill(ctx) })
}

func (s system) Start(ctx context.Context, node string) error {
	return s.on(node, func(n *cluster.Node) error { return n.Start(ctx) })
}

func (s system) Pause(ctx context.Context, node string) error {
	return s.on(node, func(n *cluster.Node) error { return n.Pause(ctx) })
}

func (s system) Resume(ctx context.Context, node string) error {
	return s.on(node, func(n *cluster.Node) error { return n.Resume(ctx) })
}

func (s system) State(ctx context.Context, node string) (st cluster.State, err error) {
	err = s.on(node, func(n *cluster.Node) error {
		st, err = n.State(ctx)
		return err
	})
	return st, err
}

// Options are common to all packages.
type Options struct {
	// Nodes are the names of the nodes. Mandatory.
	Nodes []string
	// System returns what the faults act upon. It is called when the first
	// fault is brought about, by which time the cluster runs. Mandatory.
	System func() System
	// Interval is the time between two operations of a package, on average; 0
	// means 10 s.
	Interval time.Duration
	// Targets are the choices of nodes, or of partitions, among which each
	// operation draws; nil means all that the package knows (Primaries only if
	// they can be found).
	Targets []Target
	// Primaries finds the nodes that lead at the moment. Nil means that nobody can tell.
	Primaries func(ctx context.Context) ([]string, error)
}

func (o *Options) validate(what string) {
	switch {
	case len(o.Nodes) == 0:
		panic("nemesis: " + what + " needs Options.Nodes")
	case o.System == nil:
		panic("nemesis: " + what + " needs Options.System")
	case o.Primaries == nil && slices.Contains(o.Targets, Primaries):
		panic("nemesis: " + what + " has the target primaries, but no Options.Primaries that finds them")
	}
	if o.Interval == 0 {
		o.Interval = 10 * time.Second
	}
}

// Nemesis carries out the operations of a package. It is a jepsentest.Nemesis.
type Nemesis interface {
	// Fs are the operations it understands.
	Fs() []string
	// Setup returns an error if the system lacks what the faults need.
	Setup(ctx context.Context) error
	Invoke(ctx context.Context, op *histories.Op) (histories.Value, error)
	// Heal undoes everything, and verifies that it is undone.
	Heal(ctx context.Context) error
	// CheckEffects returns an error that says which fault had no effect, or was
	// never brought about.
	CheckEffects(ctx context.Context) error
}

// Package is a fault, ready for use.
type Package struct {
	Nemesis Nemesis
	// Generator brings the fault about and ends it, in turn, without end.
	Generator dsl.Generator
	// Final ends the fault; it belongs at the end of the main phase.
	Final dsl.Generator
	// Unpaced is Generator as fast as it is asked.
	Unpaced dsl.Generator
}

// newPackage makes the package of a fault that begin brings about and end ends.
func newPackage(o *Options, n Nemesis, begin dsl.Generator, end dsl.Op) Package {
	unpaced := dsl.FlipFlop(begin, dsl.Repeat(dsl.Once(end)))
	return Package{Nemesis: n, Generator: dsl.Stagger(o.Interval, unpaced), Final: dsl.Once(end), Unpaced: unpaced}
}

// InTurn makes one package of several that are brought about one after the
// other, never two at once: after the given time begin the first, after that
// time again end it, then begin the second, and so on. The time counts from the
// end of one operation to the beginning of the next. In a short test every fault
// gets its turn.
func InTurn(interval time.Duration, packages ...Package) Package {
	c := Compose(packages...)
	var rounds []dsl.Generator
	for _, p := range packages {
		rounds = append(rounds, dsl.Limit(2, p.Unpaced))
	}
	c.Unpaced = dsl.Cycle(dsl.Seq(rounds...))
	c.Generator = dsl.FlipFlop(dsl.Repeat(dsl.Sleep(interval)), c.Unpaced)
	return c
}

// Compose makes one package of several. Their operations must have different
// names; it panics otherwise.
func Compose(packages ...Package) Package {
	c := composed{byF: map[string]Nemesis{}}
	var during, final, unpaced []dsl.Generator
	for _, p := range packages {
		c.all = append(c.all, p.Nemesis)
		for _, f := range p.Nemesis.Fs() {
			if c.byF[f] != nil {
				panic(fmt.Sprintf("nemesis: two packages have the operation %q", f))
			}
			c.byF[f] = p.Nemesis
		}
		during = append(during, p.Generator)
		final = append(final, p.Final)
		unpaced = append(unpaced, p.Unpaced)
	}
	return Package{c, dsl.Any(during...), dsl.Seq(final...), dsl.Mix(unpaced...)}
}

type composed struct {
	all []Nemesis
	byF map[string]Nemesis
}

func (c composed) Fs() []string {
	var fs []string
	for _, n := range c.all {
		fs = append(fs, n.Fs()...)
	}
	return fs
}

func (c composed) Setup(ctx context.Context) error {
	var errs []error
	for _, n := range c.all {
		errs = append(errs, n.Setup(ctx))
	}
	return errors.Join(errs...)
}

func (c composed) Invoke(ctx context.Context, op *histories.Op) (histories.Value, error) {
	n := c.byF[op.F]
	if n == nil {
		return histories.Value{}, unknownF(op.F, c.Fs())
	}
	return n.Invoke(ctx, op)
}

// neverBegun is the error of a fault that the test had but did not bring about.
func neverBegun(fault string) error {
	return fmt.Errorf("no %s was ever brought about: the main phase was too short, or the generator leaves it out", fault)
}

func unknownF(f string, known []string) error {
	return fmt.Errorf("nemesis does not know the operation %q; it knows %q", f, known)
}

func (c composed) Heal(ctx context.Context) error {
	var errs []error
	for _, n := range c.all {
		errs = append(errs, n.Heal(ctx))
	}
	return errors.Join(errs...)
}

func (c composed) CheckEffects(ctx context.Context) error {
	var errs []error
	for _, n := range c.all {
		errs = append(errs, n.CheckEffects(ctx))
	}
	return errors.Join(errs...)
}

// texts makes a list of strings.
func texts(names []string) histories.Value {
	vs := make([]histories.Value, len(names))
	for i, n := range names {
		vs[i] = histories.String(n)
	}
	return histories.List(vs...)
}

// names is the inverse of texts.
func names(v histories.Value) ([]string, bool) {
	vs, ok := v.List()
	out := make([]string, len(vs))
	for i := range vs {
		s, isText := vs[i].Str()
		out[i], ok = s, ok && isText
	}
	return out, ok
}

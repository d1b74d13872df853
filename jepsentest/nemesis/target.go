package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/jepsentest/go/histories"
)

// Target is a way to choose nodes, or to cut a network.
type Target string

// The targets. For processes they choose nodes; for partitions they say who is
// cut off from whom.
const (
	// One is a node. As a partition: it is cut off from all others.
	One Target = "one"
	// Minority is the largest number of nodes that is no majority. As a
	// partition, MinorityThird and MajoritiesRing are used.
	Minority Target = "minority"
	// Majority is the smallest majority. As a partition: the nodes are halved.
	Majority Target = "majority"
	// MinorityThird is less than a third of the nodes.
	MinorityThird Target = "minority-third"
	// Primaries are some of the nodes that lead. As a partition, each of them
	// is alone.
	Primaries Target = "primaries"
	// All are all nodes.
	All Target = "all"
	// Random is any non-empty subset of the nodes.
	Random Target = "random"
	// MajoritiesRing cuts the network such that every node sees a majority, and
	// (for up to five nodes) no two the same one. It is for partitions.
	MajoritiesRing Target = "majorities-ring"
	// OneWay is a node that is heard, but does not hear. It is for partitions.
	OneWay Target = "one-way"
)

// ProcessTargets are the targets of [Kill] and [Pause].
var ProcessTargets = []Target{One, Minority, Majority, MinorityThird, Primaries, All, Random}

// PartitionTargets are the targets of [Partition].
var PartitionTargets = []Target{One, Majority, MajoritiesRing, MinorityThird, Primaries, OneWay}

// majority returns the size of the smallest majority of n.
func majority(n int) int { return n/2 + 1 }

// minority returns the largest number that is no majority of n, but at least one.
func minority(n int) int { return max((n+1)/2-1, 1) }

// minorityThird returns the largest number below a third of n, but at least one.
func minorityThird(n int) int { return max((n-1)/3, 1) }

// shuffled returns nodes in random order.
func shuffled(rng *rand.Rand, nodes []string) []string {
	out := slices.Clone(nodes)
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// draw draws a target.
func (o *Options) draw(rng *rand.Rand, known []Target) Target {
	targets := o.Targets
	if len(targets) == 0 {
		targets = known
		if o.Primaries == nil {
			targets = slices.DeleteFunc(slices.Clone(known), func(t Target) bool { return t == Primaries })
		}
	}
	return targets[rng.IntN(len(targets))]
}

// nodesValue draws nodes, as the value of an operation. Primaries are found when
// the operation is carried out; until then they are a keyword.
func (o *Options) nodesValue(rng *rand.Rand) histories.Value {
	t := o.draw(rng, ProcessTargets)
	all := shuffled(rng, o.Nodes)
	n := len(all)
	switch t {
	case One:
		n = 1
	case Minority:
		n = minority(n)
	case Majority:
		n = majority(n)
	case MinorityThird:
		n = minorityThird(n)
	case Random:
		n = 1 + rng.IntN(n)
	case Primaries:
		return histories.Keyword(string(Primaries))
	}
	chosen := all[:n]
	slices.Sort(chosen)
	return texts(chosen)
}

// nodesOf resolves the value of an operation.
func (o *Options) nodesOf(ctx context.Context, v histories.Value) ([]string, error) {
	if k, ok := v.Keyword(); ok && k == string(Primaries) {
		return o.primaries(ctx)
	}
	nodes, ok := names(v)
	if !ok || len(nodes) == 0 {
		return nil, fmt.Errorf("a list of nodes is needed, not %v", v)
	}
	for _, n := range nodes {
		if !slices.Contains(o.Nodes, n) {
			return nil, fmt.Errorf("no node is called %q; there are %q", n, o.Nodes)
		}
	}
	return nodes, nil
}

func (o *Options) primaries(ctx context.Context) ([]string, error) {
	if o.Primaries == nil {
		return nil, fmt.Errorf("the primaries are wanted, but nobody can tell which nodes they are")
	}
	nodes, err := o.Primaries(ctx)
	if err == nil && len(nodes) == 0 {
		err = fmt.Errorf("there are none")
	}
	if err != nil {
		return nil, fmt.Errorf("find the primaries: %w", err)
	}
	return nodes, nil
}

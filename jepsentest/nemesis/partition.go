package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/jepsentest/cluster"
)

// Partition is the package that cuts the network between nodes and heals it
// again. Its operations are "start-partition", whose value is the grudge, and
// "stop-partition", which returns how many packets were dropped.
//
// It needs two nodes at least, and panics otherwise.
func Partition(o Options) Package {
	o.validate("Partition")
	if len(o.Nodes) < 2 {
		panic("nemesis: Partition needs two nodes at least: there is nothing to cut")
	}
	start := dsl.Ops(func(ctx dsl.Context) dsl.Op {
		return dsl.Op{F: "start-partition", Value: o.grudgeValue(ctx.Rand())}
	})
	return newPackage(&o, &partitioner{o: o}, start, dsl.Op{F: "stop-partition"})
}

// grudgeValue draws a partition.
func (o *Options) grudgeValue(rng *rand.Rand) histories.Value {
	all := shuffled(rng, o.Nodes)
	switch o.draw(rng, PartitionTargets) {
	case Primaries:
		return histories.Keyword(string(Primaries))
	case Majority:
		return grudgeValue(CompleteGrudge(Bisect(all)))
	case MajoritiesRing:
		return grudgeValue(RingGrudge(rng, all))
	case MinorityThird, Minority:
		n := minorityThird(len(all))
		return grudgeValue(CompleteGrudge(all[:n], all[n:]))
	case OneWay:
		return grudgeValue(OneWayGrudge(all))
	default:
		return grudgeValue(CompleteGrudge(SplitOne(all)))
	}
}

type partitioner struct {
	o Options

	mu      sync.Mutex
	begun   int    // partitions brought about
	dropped uint64 // packets dropped by those that have ended
	before  uint64 // the counters when the current one began
	active  bool
}

func (*partitioner) Fs() []string { return []string{"start-partition", "stop-partition"} }

func (p *partitioner) Setup(context.Context) error {
	if err := p.o.System().CanPartition(); err != nil {
		return fmt.Errorf("network partitions are not possible here: %w", err)
	}
	return nil
}

func (p *partitioner) Invoke(ctx context.Context, op *histories.Op) (histories.Value, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch op.F {
	case "start-partition":
		p.begun++
		g, err := p.grudge(ctx, op.Value)
		if err != nil {
			return histories.Value{}, err
		}
		return p.start(ctx, g)
	case "stop-partition":
		return p.stop(ctx)
	}
	return histories.Value{}, unknownF(op.F, p.Fs())
}

// grudge resolves the value of an operation.
func (p *partitioner) grudge(ctx context.Context, v histories.Value) (cluster.Grudge, error) {
	if k, ok := v.Keyword(); ok && k == string(Primaries) {
		primaries, err := p.o.primaries(ctx)
		if err != nil {
			return nil, err
		}
		isolated := map[string]bool{}
		var components [][]string
		for _, n := range primaries {
			isolated[n] = true
			components = append(components, []string{n})
		}
		var rest []string
		for _, n := range p.o.Nodes {
			if !isolated[n] {
				rest = append(rest, n)
			}
		}
		return CompleteGrudge(append(components, rest)...), nil
	}
	g, ok := grudgeOf(v)
	if !ok {
		return nil, fmt.Errorf("start-partition needs a map from nodes to those that they do not hear, not %v", v)
	}
	return g, nil
}

func (p *partitioner) start(ctx context.Context, g cluster.Grudge) (histories.Value, error) {
	sys := p.o.System()
	if err := p.count(ctx, sys); err != nil {
		return histories.Value{}, err
	}
	if err := sys.Partition(ctx, g); err != nil {
		return histories.Value{}, err
	}
	p.active = true
	return grudgeValue(g), nil
}

func (p *partitioner) stop(ctx context.Context) (histories.Value, error) {
	sys := p.o.System()
	earlier := p.dropped
	countErr := p.count(ctx, sys)
	if err := sys.Heal(ctx); err != nil {
		return histories.Value{}, errors.Join(err, countErr)
	}
	p.active = false
	return histories.MapOf(histories.Entry{
		Key: histories.Keyword("packets-dropped"), Value: histories.Int(int64(p.dropped - earlier)),
	}), countErr
}

// count adds what has been dropped since the last count, if a partition is in force.
func (p *partitioner) count(ctx context.Context, sys System) error {
	counters, err := sys.PartitionCounters(ctx)
	if err != nil {
		return err
	}
	var sum uint64
	for _, n := range counters {
		sum += n
	}
	if p.active {
		p.dropped += sum - p.before
	}
	p.before = sum
	return nil
}

func (p *partitioner) Heal(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun == 0 {
		return nil
	}
	_, err := p.stop(ctx)
	return err
}

// CheckEffects wants that there were partitions, and that they dropped something.
func (p *partitioner) CheckEffects(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.begun == 0:
		return neverBegun("network partition")
	case p.dropped == 0:
		return fmt.Errorf("%d network partitions did not drop a single packet", p.begun)
	}
	return nil
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Grudge maps a node to the nodes whose packets it drops on arrival. It is directed: with
// {"n1": {"n2"}} alone, n1 does not hear n2, and n2 still hears n1. A node that is no key drops
// nothing.
type Grudge map[string][]string

// CanPartition returns nil if the network between nodes can be cut here, or says in one sentence
// what is missing. Where it is not nil, every Partition that cuts something fails with it.
func (c *Cluster) CanPartition() error { return c.driver.cuttable() }

// Partition makes g the whole state of the network: what it names is cut, everything else is
// whole, whatever was cut before. Connections that exist are cut like new ones; connections
// between clients and nodes are not touched. It returns once the cuts are in force, each node's
// in one transaction of its own.
//
// A grudge that names an unknown node, or a node against itself, is an error and changes
// nothing. After any other error some nodes may have changed: declare again, or heal.
func (c *Cluster) Partition(ctx context.Context, g Grudge) error {
	if err := c.validGrudge(g); err != nil {
		return fmt.Errorf("partition: %w", err)
	}
	if err := c.isolate(ctx, g); err != nil {
		return fmt.Errorf("partition: %w", err)
	}
	return nil
}

// Heal makes the network whole and verifies at every node that no cut is left. It tries every
// node, also after an error.
func (c *Cluster) Heal(ctx context.Context) error {
	if err := c.isolate(ctx, nil); err != nil {
		return fmt.Errorf("heal: %w", err)
	}
	return nil
}

// PartitionCounters returns, for every node, how many packets from other nodes it has dropped
// since the cluster started. The numbers never decrease: the difference of two calls is the
// evidence that a partition had an effect.
func (c *Cluster) PartitionCounters(ctx context.Context) (map[string]uint64, error) {
	var mu sync.Mutex
	counts := make(map[string]uint64, len(c.nodes))
	err := c.each(ctx, func(ctx context.Context, n *Node) error {
		packets, err := c.driver.dropped(ctx, n.name)
		if err != nil {
			return fmt.Errorf("node %s: %w", n.name, err)
		}
		mu.Lock()
		defer mu.Unlock()
		counts[n.name] = packets
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("partition counters: %w", err)
	}
	return counts, nil
}

// isolate declares the network state at every node in parallel. Unlike each, it lets the others
// go on after an error, so that a heal reaches every node that can be reached.
func (c *Cluster) isolate(ctx context.Context, g Grudge) error {
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() {
			if err := c.driver.isolate(ctx, n.name, g[n.name]); err != nil {
				errs[i] = fmt.Errorf("node %s: %w", n.name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c *Cluster) validGrudge(g Grudge) error {
	for _, node := range slices.Sorted(maps.Keys(g)) {
		if c.Node(node) == nil {
			return c.unknownNode(node)
		}
		for _, peer := range g[node] {
			if c.Node(peer) == nil {
				return c.unknownNode(peer)
			}
			if peer == node {
				return fmt.Errorf("node %s cannot be cut off from itself", node)
			}
		}
	}
	return nil
}

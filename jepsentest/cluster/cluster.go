// Package cluster runs the nodes of a database under test and brings faults upon them.
//
// A node has a name, an address and a process. Name and address are the node's for as long as
// the cluster lives; the process can be killed, paused, stopped and started again, and the
// network between nodes can be cut, per pair and direction, and healed:
//
//	c, err := cluster.Start(ctx, cluster.Spec{
//		Nodes:      []string{"n1", "n2", "n3"},
//		Image:      cluster.Registry("example/db:1.2"),
//		ClientPort: 2379,
//		Command:    func(self cluster.Peer, all []cluster.Peer) []string { return []string{"db", "--name", self.Name} },
//	})
//	if err != nil { ... }                                     // nothing is left behind
//	defer c.Close(ctx)                                        // nothing is left behind
//	err = c.Node("n1").Kill(ctx)                              // SIGKILL; Addr() stays the same
//	err = c.Node("n1").Start(ctx)                             // the same data, the same address
//	err = c.Partition(ctx, cluster.Grudge{"n2": {"n1", "n3"}}) // n2 hears nobody, all hear n2
//	err = c.Heal(ctx)                                          // verified
//
// Guarantees:
//
//   - Ports are published on the loopback interface only, unless [Spec.Publish] says otherwise.
//   - [Start] and [Cluster.Close] leave no container and no network behind, also when their
//     context has ended. What a killed test process leaves, the next Start on the same machine
//     removes ([Sweep]); it never touches what belongs to a live process or to others.
//     Images stay: they are the cache.
//   - A node's state is asked from the engine each time, never remembered.
//
// Nodes are containers. Each node is two of them: a holder (package holder), a small static
// program that owns the network namespace, the published ports and the packet filter, and the
// database, which joins that namespace. A database container that owned its network would get
// another host port with every restart, and its faults would vanish with it.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Cluster is a set of running nodes. Its methods are safe for concurrent use.
type Cluster struct {
	spec   Spec
	driver driver
	nodes  []*Node

	closeOnce sync.Once
	closeErr  error
}

// closeTimeout bounds what Close may take, in place of a context that may have ended.
const closeTimeout = time.Minute

// errorLogLines is how many of a node's last log lines an error carries.
const errorLogLines = 15

// Start brings up every node of spec in parallel and returns once all are ready. Before that it
// removes what dead test processes left on this machine.
//
// After an error everything that it had created is gone again. Errors are one sentence saying
// what went wrong and what to do, with the node's last log lines where there are any. They wrap
// [ErrNoEngine] where no container engine answers and [ErrNotReady] where a node did not become
// ready.
func Start(ctx context.Context, spec Spec) (*Cluster, error) {
	spec = spec.withDefaults()
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("cluster start: %w", err)
	}
	e, err := connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("cluster start: %w", err)
	}
	// What others left does not keep this run from starting.
	if err := sweep(ctx, e, spec.Log); err != nil {
		spec.Log("cluster: %v", err)
	}
	c := &Cluster{spec: spec, driver: newDocker(e, spec)}
	for _, name := range spec.Nodes {
		c.nodes = append(c.nodes, &Node{name: name, cluster: c})
	}
	if err := c.start(ctx); err != nil {
		err = fmt.Errorf("cluster start: %w", err)
		if cleanup := c.remove(ctx); cleanup != nil {
			err = errors.Join(err, cleanup)
		}
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	peers, err := c.driver.prepare(ctx)
	if err != nil {
		return err
	}
	for i, n := range c.nodes {
		n.peer = peers[i]
	}
	err = c.each(ctx, func(ctx context.Context, n *Node) error {
		if err := c.driver.launch(ctx, n.name, c.spec.command(n.peer, peers)); err != nil {
			return fmt.Errorf("node %s: %w", n.name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.WaitReady(ctx)
}

// each calls f for every node in parallel and returns the first error, which ends the context
// of the others.
func (c *Cluster) each(ctx context.Context, f func(context.Context, *Node) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range c.nodes {
		g.Go(func() error { return f(ctx, n) })
	}
	return g.Wait()
}

// Nodes returns the nodes in the order of Spec.Nodes. The slice is the caller's.
func (c *Cluster) Nodes() []*Node { return slices.Clone(c.nodes) }

// Node returns the node of that name, or nil if there is none. O(nodes).
func (c *Cluster) Node(name string) *Node {
	for _, n := range c.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// WaitReady returns once every node is ready, or with the first error. See [Node.WaitReady].
func (c *Cluster) WaitReady(ctx context.Context) error {
	return c.each(ctx, func(ctx context.Context, n *Node) error { return n.WaitReady(ctx) })
}

// Close removes every node and the network, whatever state they are in, with all data. It does
// its work even if ctx has ended already, within a minute. Later calls return what the first
// one returned. With Spec.KeepNodes it only logs how to remove them.
func (c *Cluster) Close(ctx context.Context) error {
	c.closeOnce.Do(func() {
		if c.spec.KeepNodes {
			c.spec.Log("cluster: nodes are kept, as asked; %s", c.driver.removal())
			c.closeErr = c.driver.release()
			return
		}
		c.closeErr = c.remove(ctx)
	})
	return c.closeErr
}

func (c *Cluster) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := errors.Join(c.driver.remove(ctx), c.driver.release()); err != nil {
		return fmt.Errorf("cluster close: %w; to remove the rest, %s", err, c.driver.removal())
	}
	return nil
}

// unknownNode is the error for a name that is no node's.
func (c *Cluster) unknownNode(name string) error {
	return fmt.Errorf("no node is called %q; there are %s", name, strings.Join(c.spec.Nodes, ", "))
}

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/jepsentest/cluster"
	"golang.org/x/sync/errgroup"
)

// Kill is the package that kills the processes of nodes (SIGKILL; their data
// stays) and starts them again. Its operations are "kill", whose value is the
// list of nodes, and "start", which starts all.
func Kill(o Options) Package {
	o.validate("Kill")
	return processes(o, &processFault{
		o: o, begin: "kill", end: "start", effect: cluster.Exited,
		do: System.Kill, undo: System.Start,
	})
}

// Pause is the package that freezes the processes of nodes, as a long garbage
// collection or a suspended virtual machine does, and thaws them again. Its
// operations are "pause", whose value is the list of nodes, and "resume", which
// resumes all.
func Pause(o Options) Package {
	o.validate("Pause")
	return processes(o, &processFault{
		o: o, begin: "pause", end: "resume", effect: cluster.Paused,
		do: System.Pause, undo: System.Resume,
	})
}

func processes(o Options, f *processFault) Package {
	begin := dsl.Ops(func(ctx dsl.Context) dsl.Op {
		return dsl.Op{F: f.begin, Value: o.nodesValue(ctx.Rand())}
	})
	return newPackage(&o, f, begin, dsl.Op{F: f.end, Value: texts(o.Nodes)})
}

// processFault does something to processes, and undoes it.
type processFault struct {
	o          Options
	begin, end string
	effect     cluster.State // what a node is in between
	do, undo   func(System, context.Context, string) error

	mu       sync.Mutex
	begun    int // operations
	tried    int // nodes on which they were to have an effect
	affected int // nodes on which they were seen to have it
}

func (*processFault) Setup(context.Context) error { return nil }

func (f *processFault) Fs() []string { return []string{f.begin, f.end} }

func (f *processFault) Invoke(ctx context.Context, op *histories.Op) (histories.Value, error) {
	nodes, err := f.o.nodesOf(ctx, op.Value)
	if err != nil {
		return histories.Value{}, err
	}
	sys := f.o.System()
	switch op.F {
	case f.begin:
		return texts(nodes), f.bring(ctx, sys, nodes)
	case f.end:
		return texts(nodes), f.each(nodes, func(n string) error { return f.undo(sys, ctx, n) })
	}
	return histories.Value{}, unknownF(op.F, f.Fs())
}

func (f *processFault) bring(ctx context.Context, sys System, nodes []string) error {
	f.note(func() { f.begun++ })
	return f.each(nodes, func(n string) error {
		st, err := sys.State(ctx, n)
		if err == nil && st == cluster.Exited && f.effect == cluster.Paused {
			return nil // another fault has killed it: there is nothing to freeze
		}
		f.note(func() { f.tried++ })
		if err := errors.Join(err, f.do(sys, ctx, n)); err != nil {
			return err
		}
		if st, err = sys.State(ctx, n); err != nil {
			return err
		}
		if st == f.effect {
			f.note(func() { f.affected++ })
		}
		return nil
	})
}

func (f *processFault) note(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// each does the same to several nodes at once.
func (f *processFault) each(nodes []string, do func(node string) error) error {
	var g errgroup.Group
	for _, n := range nodes {
		g.Go(func() error { return do(n) })
	}
	return g.Wait()
}

// Heal undoes the fault on all nodes and verifies that they run.
func (f *processFault) Heal(ctx context.Context) error {
	var begun int
	f.note(func() { begun = f.begun })
	if begun == 0 {
		return nil
	}
	sys := f.o.System()
	return f.each(f.o.Nodes, func(n string) error {
		if err := f.undo(sys, ctx, n); err != nil {
			return err
		}
		st, err := sys.State(ctx, n)
		if err != nil {
			return err
		}
		if st == f.effect {
			return fmt.Errorf("node %s is still %v after %s", n, st, f.end)
		}
		return nil
	})
}

// CheckEffects wants that the fault was brought about, and seen at some node.
func (f *processFault) CheckEffects(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.begun == 0:
		return neverBegun(f.begin)
	case f.tried > 0 && f.affected == 0:
		return fmt.Errorf("%d nodes were to be %v by %s, but none ever was", f.tried, f.effect, f.begin)
	}
	return nil
}

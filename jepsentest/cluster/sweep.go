package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// Sweep removes the containers and networks of clusters whose test process has ended without
// closing them, on this machine, and images of ours that have lost their name. It touches
// nothing of a live process, nothing of another machine that shares the engine, nothing that
// was kept on purpose (Spec.KeepNodes) and nothing that this package did not create. Any number
// of processes may sweep at once. Start does it first; a call of one's own is of use to clean
// up without a new run.
//
// log receives one line for each cluster removed; nil drops them.
func Sweep(ctx context.Context, log func(format string, args ...any)) error {
	if log == nil {
		log = func(string, ...any) {}
	}
	e, err := connect(ctx)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	defer e.close()
	return sweep(ctx, e, log)
}

func sweep(ctx context.Context, e *engine, log func(string, ...any)) error {
	owned := make(client.Filters).Add("label", labelHost)
	containers, err := e.client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: owned})
	if err != nil {
		return fmt.Errorf("sweep: list containers: %w", err)
	}
	networks, err := e.client.NetworkList(ctx, client.NetworkListOptions{Filters: owned})
	if err != nil {
		return fmt.Errorf("sweep: list networks: %w", err)
	}
	var labels []map[string]string
	for _, c := range containers.Items {
		labels = append(labels, c.Labels)
	}
	for _, n := range networks.Items {
		labels = append(labels, n.Labels)
	}
	var errs []error
	for _, l := range leftovers(labels, hostID(), processStarted) {
		log("sweep: removing what is left of run %s, whose process %s has ended", l.run, l.pid)
		if err := e.removeCluster(ctx, l.cluster); err != nil {
			errs = append(errs, err)
		}
	}
	if err := e.removeUnnamedImages(ctx); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	return nil
}

// leftover is a cluster whose owner is dead.
type leftover struct{ cluster, run, pid string }

// leftovers decides which clusters to sweep, given the labels of everything that has an owner.
// The order is that of first mention.
func leftovers(labels []map[string]string, here string, started func(int) (string, processState)) []leftover {
	var out []leftover
	seen := map[string]bool{}
	for _, l := range labels {
		id := l[labelCluster]
		if _, kept := l[labelKeep]; kept || id == "" || seen[id] {
			continue
		}
		o, err := ownerOf(l)
		if err != nil {
			continue // not labelled by this package
		}
		seen[id] = true
		if o.dead(here, started) {
			out = append(out, leftover{cluster: id, run: l[labelRun], pid: l[labelPid]})
		}
	}
	return out
}

// removeUnnamedImages removes images made here whose tag has gone to another: two processes
// made the same one at the same time. Containers are created from tags, so no process is about
// to use one; those that are in use stay.
func (e *engine) removeUnnamedImages(ctx context.Context) error {
	unnamed := make(client.Filters).Add("dangling", "true").Add("label", labelImage)
	images, err := e.client.ImageList(ctx, client.ImageListOptions{Filters: unnamed})
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	for _, img := range images.Items {
		_, err := e.client.ImageRemove(ctx, img.ID, client.ImageRemoveOptions{})
		if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
			return fmt.Errorf("remove image %s: %w", img.ID, err)
		}
	}
	return nil
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/jepsentest/go/jepsentest/cluster/holder"
)

// errNotLaunched means that a node has no process yet.
var errNotLaunched = errors.New("its database has not been created")

// database is the container of a node's database.
func (d *docker) database(node string) (string, error) {
	n := d.nodes[node]
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.database == "" {
		return "", errNotLaunched
	}
	return n.database, nil
}

func (d *docker) status(ctx context.Context, node string) (status, error) {
	st, err := d.inspect(ctx, node)
	if err != nil {
		return status{}, err
	}
	switch {
	case st.Paused:
		return status{state: Paused}, nil
	case st.Running:
		return status{state: Running}, nil
	default:
		return status{state: Exited, code: st.ExitCode}, nil
	}
}

func (d *docker) inspect(ctx context.Context, node string) (*container.State, error) {
	id, err := d.database(node)
	if err != nil {
		return nil, err
	}
	info, err := d.engine.client.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return nil, err
	}
	if info.Container.State == nil {
		return nil, errors.New("the engine reports no state")
	}
	return info.Container.State, nil
}

func (d *docker) start(ctx context.Context, node string) error {
	id, err := d.database(node)
	if err != nil {
		return err
	}
	_, err = d.engine.client.ContainerStart(ctx, id, client.ContainerStartOptions{})
	if err == nil {
		return nil
	}
	if st, errStatus := d.status(ctx, node); errStatus == nil && st.state == Paused {
		return d.resume(ctx, node)
	}
	return err
}

// killPoll is the pause between two looks at a process that is being killed.
const killPoll = 5 * time.Millisecond

func (d *docker) kill(ctx context.Context, node string) error {
	victim, err := d.inspect(ctx, node)
	if err != nil {
		return err
	}
	id, err := d.database(node)
	if err != nil {
		return err
	}
	// The engine delivers SIGKILL to a paused process before it thaws it.
	_, killed := d.engine.client.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "SIGKILL"})
	for {
		now, err := d.inspect(ctx, node)
		switch {
		case err != nil:
			return err
		case !now.Running, now.StartedAt != victim.StartedAt:
			return nil // has ended; it may have been started again since
		case killed != nil:
			return killed
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(killPoll):
		}
	}
}

func (d *docker) terminate(ctx context.Context, node string) error {
	id, err := d.database(node)
	if err != nil {
		return err
	}
	_, err = d.engine.client.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "SIGTERM"})
	return d.unlessIn(ctx, node, err, Exited)
}

func (d *docker) pause(ctx context.Context, node string) error {
	id, err := d.database(node)
	if err != nil {
		return err
	}
	_, err = d.engine.client.ContainerPause(ctx, id, client.ContainerPauseOptions{})
	return d.unlessIn(ctx, node, err, Paused)
}

func (d *docker) resume(ctx context.Context, node string) error {
	id, err := d.database(node)
	if err != nil {
		return err
	}
	_, err = d.engine.client.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
	return d.unlessIn(ctx, node, err, Running, Exited)
}

// unlessIn drops an error of an operation whose aim is reached: the node is in one of the
// states that it was to bring about. Engines differ in the errors they return here.
func (d *docker) unlessIn(ctx context.Context, node string, err error, aims ...State) error {
	if err == nil {
		return nil
	}
	st, errStatus := d.status(ctx, node)
	if errStatus == nil && slices.Contains(aims, st.state) {
		return nil
	}
	return err
}

func (d *docker) logs(ctx context.Context, node string, w io.Writer) error {
	id, err := d.database(node)
	if err != nil {
		return err
	}
	// The engine keeps one log per container, across restarts. It is read whole rather than
	// followed: a follower that is cut off cannot tell where it was.
	r, err := d.engine.client.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = stdcopy.StdCopy(w, w, r)
	return err
}

func (d *docker) listening(ctx context.Context, node string, port int) (bool, error) {
	ports, err := d.nodes[node].client.Listening(ctx)
	return slices.Contains(ports, uint16(port)), err
}

func (d *docker) isolate(ctx context.Context, node string, from []string) error {
	if d.uncuttable != nil {
		if len(from) == 0 {
			return nil // nothing is cut, for nothing can be
		}
		return d.uncuttable
	}
	var rules []holder.Rule
	var want []netip.Addr
	for _, peer := range from {
		ip := d.nodes[peer].place.ip
		rules = append(rules, holder.Rule{Direction: holder.In, Peer: ip})
		want = append(want, ip)
	}
	st, err := d.nodes[node].client.Declare(ctx, rules)
	if err != nil {
		return err
	}
	var have []netip.Addr
	for _, r := range st.Rules {
		have = append(have, r.Peer)
	}
	if want, have = distinct(want), distinct(have); !slices.Equal(want, have) {
		return fmt.Errorf("packets of %v were to be dropped, the kernel drops those of %v", want, have)
	}
	return nil
}

// distinct returns addrs sorted, each once.
func distinct(addrs []netip.Addr) []netip.Addr {
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs)
}

func (d *docker) cuttable() error { return d.uncuttable }

func (d *docker) dropped(ctx context.Context, node string) (uint64, error) {
	if d.uncuttable != nil {
		return 0, nil
	}
	st, err := d.nodes[node].client.State(ctx)
	return st.Dropped, err
}

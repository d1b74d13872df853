package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"
)

// Node is one member of a cluster. Its methods are safe for concurrent use; what concurrent
// faults on the same node add up to is the engine's order of doing them.
type Node struct {
	name    string
	peer    Peer // set before Start returns, constant afterwards
	cluster *Cluster
}

// ErrNotReady is wrapped by errors of nodes that did not become ready.
var ErrNotReady = errors.New("node is not ready")

// Name returns the node's name.
func (n *Node) Name() string { return n.name }

// String returns the node's name.
func (n *Node) String() string { return n.name }

// Peer returns how other nodes know this one.
func (n *Node) Peer() Peer { return n.peer }

// IP returns the node's address in the private network. It stays the same until Close.
func (n *Node) IP() netip.Addr { return n.peer.IP }

// Addr returns "host:port" at which the test process reaches the node's ClientPort. It stays
// the same until Close, whatever happens to the node.
func (n *Node) Addr() string { return n.AddrOf(n.cluster.spec.ClientPort) }

// AddrOf is Addr for any port of Spec.Ports, and "" for a port that is not published.
func (n *Node) AddrOf(port int) string { return n.cluster.driver.addr(n.name, port) }

// DataDir returns where in the node the database keeps its data.
func (n *Node) DataDir() string { return n.cluster.spec.DataDir }

// State asks the engine what the node's process is doing.
func (n *Node) State(ctx context.Context) (State, error) {
	st, err := n.cluster.driver.status(ctx, n.name)
	if err != nil {
		return "", n.fail("state", err)
	}
	return st.state, nil
}

// Kill ends the node's process with SIGKILL and returns once it has ended; data stays. A paused
// process is killed without running again. Killing an exited node is no error.
func (n *Node) Kill(ctx context.Context) error {
	return n.fail("kill", n.cluster.driver.kill(ctx, n.name))
}

// Start starts the node's process again, with the same command, data and address, and resumes
// it if it is paused. It does not wait until the node is ready: see WaitReady. Starting a
// running node is no error.
func (n *Node) Start(ctx context.Context) error {
	return n.fail("start", n.cluster.driver.start(ctx, n.name))
}

// Pause freezes the node's process: it keeps its connections and does nothing. Pausing a paused
// node is no error; pausing an exited one is.
func (n *Node) Pause(ctx context.Context) error {
	return n.fail("pause", n.cluster.driver.pause(ctx, n.name))
}

// Resume thaws a paused process. On any other node it does nothing.
func (n *Node) Resume(ctx context.Context) error {
	return n.fail("resume", n.cluster.driver.resume(ctx, n.name))
}

// stopPoll is how often Stop looks whether the process has ended.
const stopPoll = 10 * time.Millisecond

// Stop asks the process to end with SIGTERM and kills it if it still runs after grace, or when
// ctx ends. It returns once the process has ended. A paused process is resumed first. Stopping
// an exited node is no error.
func (n *Node) Stop(ctx context.Context, grace time.Duration) error {
	d := n.cluster.driver
	if err := d.resume(ctx, n.name); err != nil {
		return n.fail("stop", err)
	}
	if err := d.terminate(ctx, n.name); err != nil {
		return n.fail("stop", err)
	}
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	for {
		st, err := d.status(ctx, n.name)
		if err != nil {
			return n.fail("stop", err)
		}
		if st.state == Exited {
			return nil
		}
		select {
		case <-time.After(stopPoll):
		case <-deadline.C:
			return n.fail("stop", d.kill(ctx, n.name))
		case <-ctx.Done():
			return n.fail("stop", errors.Join(ctx.Err(), d.kill(context.WithoutCancel(ctx), n.name)))
		}
	}
}

// Logs copies to w all that the node's processes have written to stdout and stderr since the
// cluster started, in order, without gaps or repeats at restarts. It may be called in any state
// and repeatedly; each call begins at the beginning.
func (n *Node) Logs(ctx context.Context, w io.Writer) error {
	return n.fail("logs", n.cluster.driver.logs(ctx, n.name, w))
}

// readyPoll is the pause between two looks at a node that is not ready.
const readyPoll = 20 * time.Millisecond

// WaitReady returns nil once the node is ready to serve clients. It returns an error that wraps
// [ErrNotReady], with the node's last log lines, as soon as the process has exited or is
// paused, or after Spec.ReadyTimeout, or when ctx ends (which it wraps too).
func (n *Node) WaitReady(ctx context.Context) error {
	spec := n.cluster.spec
	limited, cancel := context.WithTimeout(ctx, spec.ReadyTimeout)
	defer cancel()
	var lack error // what the last look found that was not cut short by the time
	for {
		// The state first: a node that has exited will not become ready, and a port
		// forwarder may answer in its place.
		st, err := n.cluster.driver.status(limited, n.name)
		if err == nil {
			switch st.state {
			case Exited:
				return n.notReady(ctx, fmt.Errorf("exited with code %d", st.code))
			case Paused:
				return n.notReady(ctx, errors.New("is paused"))
			}
			if err = n.ready(limited); err == nil {
				return nil
			}
		}
		if limited.Err() == nil || lack == nil {
			lack = err
		}
		select {
		case <-time.After(readyPoll):
		case <-limited.Done():
			if ctx.Err() != nil {
				return n.notReady(ctx, fmt.Errorf("was waited for in vain: %w", ctx.Err()))
			}
			return n.notReady(ctx, fmt.Errorf("%w within %v", n.unready(lack), spec.ReadyTimeout))
		}
	}
}

// errPortClosed is what the default readiness lacks.
var errPortClosed = errors.New("port closed")

func (n *Node) ready(ctx context.Context) error {
	if r := n.cluster.spec.Ready; r != nil {
		return r(ctx, n)
	}
	open, err := n.cluster.driver.listening(ctx, n.name, n.cluster.spec.ClientPort)
	if err == nil && !open {
		err = errPortClosed
	}
	return err
}

// unready words the last failed look at a node.
func (n *Node) unready(err error) error {
	if errors.Is(err, errPortClosed) || (n.cluster.spec.Ready == nil && errors.Is(err, context.DeadlineExceeded)) {
		return fmt.Errorf("did not open port %d", n.cluster.spec.ClientPort)
	}
	return fmt.Errorf("did not become ready (%w)", err)
}

// notReady says why a node is not ready, with its last log lines.
func (n *Node) notReady(ctx context.Context, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	hint := "it has logged nothing; check Spec.Command and Spec.ClientPort"
	var log bytes.Buffer
	if err := n.cluster.driver.logs(ctx, n.name, &log); err != nil {
		hint = fmt.Sprintf("its log cannot be read (%v)", err)
	} else if tail := lastLines(log.String(), errorLogLines); tail != "" {
		hint = "its last log lines:\n" + tail
	}
	return fmt.Errorf("%w: %s %w; %s", ErrNotReady, n.name, why, hint)
}

// lastLines returns the last n lines of s, each indented.
func lastLines(s string, n int) string {
	s = strings.TrimRight(s, "\n")
	if s == "" {
		return ""
	}
	lines := strings.Split(s, "\n")
	return "\t" + strings.Join(lines[max(0, len(lines)-n):], "\n\t")
}

func (n *Node) fail(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", operation, n.name, err)
}

package cluster

import (
	"context"
	"io"
)

// State is what a node's process is doing.
type State string

// The states of a node.
const (
	Running State = "running"
	Paused  State = "paused" // frozen by Pause: exists, holds its connections, does nothing
	Exited  State = "exited" // killed, stopped, or ended by itself
)

// status is a node's state and, of an exited one, the code.
type status struct {
	state State
	code  int
}

// driver is where nodes run. A cluster has one of its own. Methods that name a node are called
// with names of the spec only, after prepare and launch; all are safe for concurrent use and
// leave it to the caller to say in errors which node they are about.
type driver interface {
	// prepare makes everything but the database processes: the image, the network, a place
	// for each node. The peers are in the order of the spec.
	prepare(ctx context.Context) ([]Peer, error)
	// launch creates a node's process and starts it, once per node.
	launch(ctx context.Context, node string, command []string) error
	// remove undoes prepare and launch, however far they got, and everything since.
	remove(ctx context.Context) error
	// removal tells a person how to do so by hand: an imperative clause.
	removal() string
	// release gives up the driver's own resources; nodes are not touched.
	release() error

	// addr is where the test process reaches a published port of a node.
	addr(node string, port int) string
	// listening says whether the node accepts TCP connections on port, without connecting.
	listening(ctx context.Context, node string, port int) (bool, error)

	// status asks for the node's state.
	status(ctx context.Context, node string) (status, error)
	// start starts an exited process and thaws a paused one. A no-op on a running one.
	start(ctx context.Context, node string) error
	// kill sends SIGKILL, to a paused process too, and returns once it has ended. The
	// process executes nothing after kill was called. A no-op on an exited one.
	kill(ctx context.Context, node string) error
	// terminate sends SIGTERM and returns at once. A no-op on an exited process.
	terminate(ctx context.Context, node string) error
	// pause freezes and resume thaws the process. No-ops where it is so already.
	pause(ctx context.Context, node string) error
	resume(ctx context.Context, node string) error
	// logs copies everything that the node ever wrote to stdout and stderr, in order.
	logs(ctx context.Context, node string, w io.Writer) error

	// cuttable returns nil if isolate is possible here, or says what is missing.
	cuttable() error
	// isolate declares the peers whose packets node drops on arrival: these and no others.
	// It returns once that is in force, and an error if it cannot be shown to be.
	isolate(ctx context.Context, node string, from []string) error
	// dropped counts the packets that node has dropped so far.
	dropped(ctx context.Context, node string) (uint64, error)
}

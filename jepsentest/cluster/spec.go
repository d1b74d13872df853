package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jepsentest/go/jepsentest/cluster/holder"
)

// Spec says what cluster to run. Nodes, Image and ClientPort are required; every other zero
// value means what its comment says.
type Spec struct {
	_ struct{}

	// RunID marks everything that this cluster creates, so that people and tools find it
	// (label org.jepsentest.run). Empty: a random one.
	RunID string
	// Name is what log messages call the cluster. Empty: "cluster".
	Name string
	// Nodes are the names, unique, each a valid host name label: "n1", "db-2". Nodes reach
	// each other by these names.
	Nodes []string

	// Image is what the nodes run.
	Image Image
	// Command returns the command line of one node, given all nodes in the order of Nodes.
	// The image's entrypoint, if it has one, is put in front. Nil, or an empty result: the
	// image's own command. It is called once per node, concurrently, before any database
	// process runs, and must not modify all.
	Command func(self Peer, all []Peer) []string
	// Entrypoint replaces the image's entrypoint. Empty: the image's own.
	Entrypoint []string
	// Env is the environment of every node, added to that of the image.
	Env map[string]string
	// Tmpfs maps paths in the node to mount options ("" for none, "size=64m") of file
	// systems in memory. They are emptied whenever the process ends: not for data that shall
	// survive a kill.
	Tmpfs map[string]string
	// DataDir is where the database keeps its data, an absolute path in the node; faults of
	// disks are aimed at it. Its content survives Kill, Stop and Start. Empty: "/data",
	// which images of [GoBinary] have.
	DataDir string

	// ClientPort is the TCP port on which a node serves clients.
	ClientPort int
	// Ports are further TCP ports to publish; see [Node.AddrOf]. Ports between nodes need
	// no mention: they are all open.
	Ports []int
	// Publish is the host address on which ports are published. The zero value is
	// 127.0.0.1, which nobody outside the machine can reach; that is what one wants, unless
	// the engine runs on another machine: then whoever reaches that address can reach the
	// database and the switches of its faults.
	Publish netip.Addr

	// Ready returns nil once a node serves clients. It is called again and again until it
	// does; each call should take little more than a second. Nil: the node listens on ClientPort.
	Ready func(ctx context.Context, n *Node) error
	// ReadyTimeout is how long one wait for readiness may take. 0: one minute.
	ReadyTimeout time.Duration

	// Log receives progress messages, one line each, no newline at the end; it must be safe
	// for concurrent use. Nil: they are dropped.
	Log func(format string, args ...any)
	// KeepNodes leaves the nodes running after Close, to look at them. Such nodes are not
	// swept either; Close logs how to remove them.
	KeepNodes bool
}

// Peer is how nodes know each other.
type Peer struct {
	Name string     // the node's name, which resolves to IP inside the cluster
	IP   netip.Addr // in the private network; the same until Close
}

// nodeName is a host name label (RFC 1123), in lower case because name servers ignore case.
var nodeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// runID is what may be a label's value and, for people, part of a shell command.
var runID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]*$`)

func (s Spec) withDefaults() Spec {
	if s.RunID == "" {
		s.RunID = strings.ToLower(rand.Text()[:10])
	}
	if s.Name == "" {
		s.Name = "cluster"
	}
	if s.DataDir == "" {
		s.DataDir = "/data"
	}
	if !s.Publish.IsValid() {
		s.Publish = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if s.ReadyTimeout == 0 {
		s.ReadyTimeout = time.Minute
	}
	if s.Log == nil {
		s.Log = func(string, ...any) {}
	}
	return s
}

// Validate says in one sentence what is wrong with the spec, or returns nil. Start calls it.
func (s Spec) Validate() error {
	switch {
	case len(s.Nodes) == 0:
		return errors.New("spec: Nodes is empty; name at least one node")
	case s.RunID != "" && !runID.MatchString(s.RunID):
		return fmt.Errorf("spec: RunID %q has other characters than letters, digits and ._:-", s.RunID)
	case s.Image == nil:
		return errors.New("spec: Image is nil; use Registry, GoBinary or FirstOf")
	case s.DataDir != "" && !strings.HasPrefix(s.DataDir, "/"):
		return fmt.Errorf("spec: DataDir %q is not an absolute path", s.DataDir)
	case s.ReadyTimeout < 0:
		return fmt.Errorf("spec: ReadyTimeout %v is negative", s.ReadyTimeout)
	}
	for i, n := range s.Nodes {
		if !nodeName.MatchString(n) {
			return fmt.Errorf("spec: node name %q is not a host name label of lower-case letters, digits and hyphens", n)
		}
		if slices.Contains(s.Nodes[:i], n) {
			return fmt.Errorf("spec: two nodes are called %q", n)
		}
	}
	if err := validPort("ClientPort", s.ClientPort); err != nil {
		return err
	}
	for i, p := range s.Ports {
		if err := validPort("Ports", p); err != nil {
			return err
		}
		if p == s.ClientPort || slices.Contains(s.Ports[:i], p) {
			return fmt.Errorf("spec: port %d is named twice", p)
		}
	}
	if err := s.Image.validate(); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	return nil
}

func validPort(field string, p int) error {
	switch {
	case p == 0:
		return fmt.Errorf("spec: %s has no port", field)
	case p < 0 || p > 65535:
		return fmt.Errorf("spec: %s %d is not a port number", field, p)
	case p == holder.ControlPort:
		return fmt.Errorf("spec: %s %d is taken by the node's holder", field, p)
	}
	return nil
}

// command is the command line of self, nil for the image's own.
func (s Spec) command(self Peer, all []Peer) []string {
	if s.Command == nil {
		return nil
	}
	return s.Command(self, all)
}

// ports are all that are published.
func (s Spec) ports() []int { return append([]int{s.ClientPort}, s.Ports...) }

// Package holder is the protocol between a test process and the holder of a node.
//
// A holder is a small program that owns a node's network: the namespace, the published ports
// and the right to program packet filters. The database joins that namespace and comes and goes
// as it likes; address, host port and faults stay. The program itself is cmd/holder.
//
// The whole protocol is declarative. A client states every rule that shall hold from now on,
// the holder puts them in force in one transaction and answers with what the kernel then has:
//
//	c := holder.Client{Base: "http://127.0.0.1:49153"}
//	st, err := c.Declare(ctx, []holder.Rule{{Direction: holder.In, Peer: peer}}) // cut
//	st, err = c.State(ctx)                                                       // st.Dropped counts packets
//	st, err = c.Declare(ctx, nil)                                                // heal
//
// Declaring the same rules twice is the same as declaring them once, so a client that lost an
// answer may simply ask again.
package holder

import (
	"fmt"
	"net/netip"
)

// ControlPort is the TCP port on which a holder serves its protocol inside its namespace. A
// database that joins the namespace cannot use it.
const ControlPort = 47911

// Direction says which packets of a peer a rule is about, seen from the holder's node.
type Direction string

// The two directions.
const (
	In  Direction = "in"  // packets that arrive from the peer
	Out Direction = "out" // packets that leave for the peer
)

// Rule drops every packet between the holder's node and one peer in one direction, whatever its
// protocol or port, also those of connections that already exist.
type Rule struct {
	Direction Direction  `json:"direction"`
	Peer      netip.Addr `json:"peer"` // IPv4 or IPv6
}

// Validate says what is wrong with the rule, or returns nil.
func (r Rule) Validate() error {
	if r.Direction != In && r.Direction != Out {
		return fmt.Errorf("rule: direction %q is neither %q nor %q", r.Direction, In, Out)
	}
	if !r.Peer.IsValid() {
		return fmt.Errorf("rule: no peer address")
	}
	if r.Peer.IsLoopback() || r.Peer.IsUnspecified() {
		return fmt.Errorf("rule: peer %v is not the address of another node", r.Peer)
	}
	return nil
}

// RuleState is a rule in force and what it has dropped since it was declared.
type RuleState struct {
	Rule
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// State is what a holder knows about its node's network.
type State struct {
	// Rules are those in force, read from the kernel.
	Rules []RuleState `json:"rules"`
	// Dropped counts the packets dropped since the holder started, by rules in force and by
	// those that no longer are. It never decreases. A packet that arrives in the instant in
	// which rules change may be missing from it.
	Dropped uint64 `json:"dropped"`
}

// Backend programs the packet filter of one network namespace. Its methods are never called
// concurrently.
type Backend interface {
	// Apply replaces all rules of this holder by rules, in one transaction: after an error
	// the old ones are still in force. Rules of others in the same namespace are untouched.
	Apply(rules []Rule) error
	// Installed reads the rules in force and their counters from the kernel.
	Installed() ([]RuleState, error)
	// Listening lists the TCP ports on which a process in the namespace accepts connections.
	Listening() ([]uint16, error)
}

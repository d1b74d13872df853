package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/jepsentest/go/jepsentest/cluster/holder"
)

// filter is the backend over nftables. All it does happens in a table of its own: the engine's
// name server lives in other tables of the same namespace and must survive every change.
type filter struct{}

const tableName = "jepsentest"

// Offsets and lengths of addresses in the network header.
const (
	src4, dst4, len4 = 12, 16, 4
	src6, dst6, len6 = 8, 24, 16
)

// Apply sends one batch, which the kernel commits or refuses as a whole: the table is deleted
// and, if there are rules, made anew. (Adding it first makes the deletion valid when there was
// none.) So the result depends on rules alone, never on what was there before.
func (filter) Apply(rules []holder.Rule) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	table := &nftables.Table{Family: nftables.TableFamilyINet, Name: tableName}
	conn.AddTable(table)
	conn.DelTable(table)
	if len(rules) > 0 {
		conn.AddTable(table)
		chains := map[holder.Direction]*nftables.Chain{
			holder.In:  addChain(conn, table, holder.In, nftables.ChainHookInput),
			holder.Out: addChain(conn, table, holder.Out, nftables.ChainHookOutput),
		}
		for _, r := range rules {
			conn.AddRule(&nftables.Rule{
				Table: table,
				Chain: chains[r.Direction],
				Exprs: match(r),
				// The kernel keeps this for us; Installed reads the rule back from it.
				UserData: []byte(r.Peer.String()),
			})
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func addChain(conn *nftables.Conn, t *nftables.Table, d holder.Direction, hook *nftables.ChainHook) *nftables.Chain {
	accept := nftables.ChainPolicyAccept
	return conn.AddChain(&nftables.Chain{
		Name:     string(d),
		Table:    t,
		Type:     nftables.ChainTypeFilter,
		Hooknum:  hook,
		Priority: nftables.ChainPriorityFilter,
		Policy:   &accept,
	})
}

// match compiles one rule: family, address, count, drop.
func match(r holder.Rule) []expr.Any {
	family, offset, length := byte(unix.NFPROTO_IPV4), uint32(src4), uint32(len4)
	switch {
	case r.Peer.Is4() && r.Direction == holder.Out:
		offset = dst4
	case r.Peer.Is6() && r.Direction == holder.In:
		family, offset, length = unix.NFPROTO_IPV6, src6, len6
	case r.Peer.Is6():
		family, offset, length = unix.NFPROTO_IPV6, dst6, len6
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: r.Peer.AsSlice()},
		&expr.Counter{},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}
}

// Installed reads the table back. No table means no rules.
func (filter) Installed() ([]holder.RuleState, error) {
	installed := []holder.RuleState{}
	conn, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	table, err := conn.ListTableOfFamily(tableName, nftables.TableFamilyINet)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && table == nil) {
		return installed, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	for _, d := range []holder.Direction{holder.In, holder.Out} {
		rules, err := conn.GetRules(table, &nftables.Chain{Name: string(d), Table: table})
		if err != nil {
			return nil, fmt.Errorf("read chain %s: %w", d, err)
		}
		for _, r := range rules {
			peer, err := netip.ParseAddr(string(r.UserData))
			if err != nil {
				return nil, fmt.Errorf("read chain %s: a rule that is not ours: %w", d, err)
			}
			st := holder.RuleState{Rule: holder.Rule{Direction: d, Peer: peer}}
			for _, e := range r.Exprs {
				if c, ok := e.(*expr.Counter); ok {
					st.Packets, st.Bytes = c.Packets, c.Bytes
				}
			}
			installed = append(installed, st)
		}
	}
	return installed, nil
}

// Listening reads the namespace's socket tables.
func (filter) Listening() ([]uint16, error) {
	var tables []io.Reader
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		tables = append(tables, f)
	}
	return holder.ParseListening(tables...)
}

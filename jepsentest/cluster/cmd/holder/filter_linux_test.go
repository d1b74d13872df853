package main

import (
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/onsi/gomega"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/jepsentest/go/jepsentest/cluster/holder"
)

// inNamespace runs f in a network namespace of its own whose loopback interface is up. A thread
// that has entered one is never used again: the goroutine ends with it locked.
func inNamespace(t *testing.T, f func()) {
	done := make(chan struct{})
	var skip string
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			skip = "needs the right to make network namespaces: " + err.Error()
			return
		}
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		if err == nil {
			err = filter{}.Apply(nil)
		}
		if err != nil {
			skip = "needs NET_ADMIN and nftables: " + err.Error()
			return
		}
		f()
	}()
	<-done
	if skip != "" {
		t.Skip(skip)
	}
}

// talk sends a datagram to addr and says whether it arrived.
func talk(g *gomega.WithT, addr string) bool {
	l, err := net.ListenPacket("udp", net.JoinHostPort(addr, "0"))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	defer l.Close()
	c, err := net.Dial("udp", l.LocalAddr().String())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	defer c.Close()
	_, _ = c.Write([]byte("x")) // EPERM if dropped on the way out
	// On the loopback interface it has arrived when Write returns.
	g.Expect(l.SetReadDeadline(time.Now().Add(100 * time.Millisecond))).To(gomega.Succeed())
	_, _, err = l.ReadFrom(make([]byte, 1))
	return err == nil
}

func TestFilter(t *testing.T) {
	inNamespace(t, func() {
		g := gomega.NewWithT(t)
		g.Expect(filter{}.Installed()).To(gomega.BeEmpty())
		for _, addr := range []string{"127.0.0.1", "::1"} {
			for _, d := range []holder.Direction{holder.In, holder.Out} {
				rules := []holder.Rule{{Direction: d, Peer: netip.MustParseAddr(addr)}}
				g.Expect(talk(g, addr)).To(gomega.BeTrue(), "before %v", rules)
				g.Expect(filter{}.Apply(rules)).To(gomega.Succeed())
				g.Expect(talk(g, addr)).To(gomega.BeFalse(), "with %v", rules)
				other := map[string]string{"127.0.0.1": "::1", "::1": "127.0.0.1"}[addr]
				g.Expect(talk(g, other)).To(gomega.BeTrue(), "%s with %v", other, rules)
				got, err := filter{}.Installed()
				g.Expect(err).NotTo(gomega.HaveOccurred())
				g.Expect(got).To(gomega.HaveLen(1))
				g.Expect(got[0].Rule).To(gomega.Equal(rules[0]))
				g.Expect(got[0].Packets).To(gomega.BeEquivalentTo(1))
				g.Expect(filter{}.Apply(nil)).To(gomega.Succeed())
				g.Expect(filter{}.Installed()).To(gomega.BeEmpty())
				g.Expect(talk(g, addr)).To(gomega.BeTrue(), "after %v", rules)
			}
		}
	})
}

func TestFilterLeavesOthersAlone(t *testing.T) {
	inNamespace(t, func() {
		g := gomega.NewWithT(t)
		conn, err := nftables.New()
		g.Expect(err).NotTo(gomega.HaveOccurred())
		conn.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "nat"})
		conn.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName})
		g.Expect(conn.Flush()).To(gomega.Succeed())
		peer := netip.MustParseAddr("10.0.0.2")
		both := []holder.Rule{{Direction: holder.In, Peer: peer}, {Direction: holder.Out, Peer: peer}}
		for range 2 { // declaring again does not add up
			g.Expect(filter{}.Apply(both)).To(gomega.Succeed())
			got, err := filter{}.Installed()
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(got).To(gomega.HaveLen(2))
		}
		g.Expect(filter{}.Apply(nil)).To(gomega.Succeed())
		tables, err := conn.ListTablesOfFamily(nftables.TableFamilyIPv4)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(tables).To(gomega.HaveLen(2))
	})
}

package cluster

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jepsentest/go/jepsentest/cluster/holder"
)

// route turns a port of one node into an address that the test process can dial.
type route struct {
	what string
	addr func(place, int) string
}

// place is where a node's network can be reached.
type place struct {
	ip        netip.Addr  // in the private network
	published map[int]int // container port → host port
}

// routes lists the ways to a published port that may work, the most likely first. Which one does
// cannot be known, only tried: whether this process is in a container beside the engine's, or
// in one that contains the engine, cannot be told from within.
func routes(publish netip.Addr, daemon, override, gateway string) []route {
	var out []route
	seen := map[string]bool{}
	mapped := func(host string) {
		if host == "" || seen[host] {
			return
		}
		seen[host] = true
		out = append(out, route{host, func(p place, port int) string {
			return net.JoinHostPort(host, strconv.Itoa(p.published[port]))
		}})
	}
	mapped(override)
	if publish.IsUnspecified() {
		mapped("127.0.0.1")
	} else {
		mapped(publish.String())
	}
	if u, err := url.Parse(daemon); err == nil && u.Scheme != "unix" && u.Scheme != "npipe" {
		mapped(u.Hostname())
	}
	mapped(gateway)
	return append(out, route{"the private network", func(p place, port int) string {
		return net.JoinHostPort(p.ip.String(), strconv.Itoa(port))
	}})
}

const (
	routeTimeout = 15 * time.Second       // to find a route at all
	routeTry     = 500 * time.Millisecond // for one attempt
	routePause   = 20 * time.Millisecond  // between rounds
)

// findRoute returns the first route on which the holder at p answers. It asks the holder itself
// rather than dialling: port forwarders accept connections whether or not anybody listens.
func findRoute(ctx context.Context, hc *http.Client, candidates []route, p place) (route, error) {
	ctx, cancel := context.WithTimeout(ctx, routeTimeout)
	defer cancel()
	for {
		var errs []error
		for _, r := range candidates {
			try, cancel := context.WithTimeout(ctx, routeTry)
			err := holder.Client{Base: "http://" + r.addr(p, holder.ControlPort), HTTP: hc}.Healthy(try)
			cancel()
			if err == nil {
				return r, nil
			}
			errs = append(errs, fmt.Errorf("%s: %w", r.what, err))
		}
		select {
		case <-ctx.Done():
			return route{}, fmt.Errorf("no address reaches the nodes' published ports; if the engine runs on another machine, set Spec.Publish to an address of it (%w)",
				errors.Join(errs...))
		case <-time.After(routePause):
		}
	}
}

// defaultGateway is the machine behind this process' network in Linux containers, and "" where
// there is none or it cannot be had.
func defaultGateway() string {
	b, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return ""
	}
	return parseGateway(string(b))
}

// parseGateway finds the default route in the form of /proc/net/route: its destination is zero,
// its gateway the hexadecimal form of a number in the machine's byte order.
func parseGateway(table string) string {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 3 || f[1] != "00000000" {
			continue
		}
		b, err := hex.DecodeString(f[2])
		if err != nil || len(b) != 4 {
			continue
		}
		var ip [4]byte
		binary.NativeEndian.PutUint32(ip[:], binary.BigEndian.Uint32(b))
		if addr := netip.AddrFrom4(ip); !addr.IsUnspecified() {
			return addr.String()
		}
	}
	return ""
}

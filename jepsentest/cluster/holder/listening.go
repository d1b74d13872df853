package holder

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// tcpListen is the state LISTEN in /proc/net/tcp.
const tcpListen = "0A"

// ParseListening reads tables in the form of /proc/net/tcp and /proc/net/tcp6 and returns the
// ports of the sockets that listen, sorted, each once. Unlike a connection attempt, this leaves
// no trace in the database, and no port forwarder in between can accept in its stead.
func ParseListening(tables ...io.Reader) ([]uint16, error) {
	ports := []uint16{}
	for _, t := range tables {
		sc := bufio.NewScanner(t)
		for first := true; sc.Scan(); first = false {
			if first {
				continue // the heading
			}
			f := strings.Fields(sc.Text())
			if len(f) < 4 || f[3] != tcpListen {
				continue
			}
			_, hexPort, ok := strings.Cut(f[1], ":")
			if !ok {
				return nil, fmt.Errorf("parse socket table: local address %q has no port", f[1])
			}
			p, err := strconv.ParseUint(hexPort, 16, 16)
			if err != nil {
				return nil, fmt.Errorf("parse socket table: local address %q: %w", f[1], err)
			}
			ports = append(ports, uint16(p))
		}
		if err := sc.Err(); err != nil {
			return nil, fmt.Errorf("read socket table: %w", err)
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports), nil
}

// Command testnode is the smallest database that the tests of package cluster can bring faults
// upon: its nodes tell each other that they are alive, over UDP and over one TCP connection per
// peer that stays open, and say over HTTP whom they have heard.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const beat = 10 * time.Millisecond

var (
	name       = flag.String("name", "", "of this node")
	peers      = flag.String("peers", "", "names of the others, separated by commas")
	port       = flag.Int("port", 8080, "to serve HTTP on; 0: none")
	data       = flag.String("data", "/data", "directory")
	exit       = flag.Int("exit", -1, "exit at once with this code")
	ignoreTerm = flag.Bool("ignore-term", false, "do not end on SIGTERM")
)

// heard keeps when each peer was last heard, by protocol.
type heard struct {
	mu   sync.Mutex
	last map[string]time.Time // "udp n2"
}

func (h *heard) note(proto, peer string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last[proto+" "+peer] = time.Now()
}

// ages returns how many milliseconds ago each peer was last heard.
func (h *heard) ages() map[string]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]int64{}
	for k, t := range h.last {
		out[k] = time.Since(t).Milliseconds()
	}
	return out
}

func main() {
	flag.Parse()
	fmt.Printf("boot %d of %s\n", boots(), *name)
	if *exit >= 0 {
		fmt.Fprintln(os.Stderr, "exiting as told")
		os.Exit(*exit)
	}
	h := &heard{last: map[string]time.Time{}}
	go h.listenUDP()
	go h.listenTCP()
	for _, p := range strings.Split(*peers, ",") {
		if p != "" {
			go sayUDP(p)
			go sayTCP(p)
		}
	}
	go serve(h)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	for range term {
		fmt.Println("terminated")
		if !*ignoreTerm {
			os.Exit(0)
		}
	}
}

// boots counts starts in a file, which shows whether data survive.
func boots() int {
	file := filepath.Join(*data, "boots")
	b, _ := os.ReadFile(file)
	n, _ := strconv.Atoi(string(b))
	n++
	if err := os.WriteFile(file, []byte(strconv.Itoa(n)), 0o600); err != nil {
		fatal(err)
	}
	return n
}

func serve(h *heard) {
	if *port == 0 {
		return
	}
	http.HandleFunc("GET /heard", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(h.ages())
	})
	// Lines go to stdout and stderr in turn, so that a log must keep the order of both.
	http.HandleFunc("POST /log", func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(r.FormValue("from"))
		to, _ := strconv.Atoi(r.FormValue("to"))
		for i := from; i < to; i++ {
			out := os.Stdout
			if i%2 == 1 {
				out = os.Stderr
			}
			fmt.Fprintf(out, "line %d\n", i)
		}
	})
	fatal(http.ListenAndServe(":"+strconv.Itoa(*port), nil))
}

func (h *heard) listenUDP() {
	c, err := net.ListenPacket("udp", ":9000")
	if err != nil {
		fatal(err)
	}
	buf := make([]byte, 64)
	for {
		n, _, err := c.ReadFrom(buf)
		if err != nil {
			fatal(err)
		}
		h.note("udp", string(buf[:n]))
	}
}

func sayUDP(peer string) {
	for ; ; time.Sleep(beat) {
		if c, err := net.Dial("udp", peer+":9000"); err == nil {
			for {
				if _, err := c.Write([]byte(*name)); err != nil {
					break
				}
				time.Sleep(beat)
			}
			c.Close()
		}
	}
}

func (h *heard) listenTCP() {
	l, err := net.Listen("tcp", ":9001")
	if err != nil {
		fatal(err)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			fatal(err)
		}
		go func() {
			defer c.Close()
			buf := make([]byte, len(*name)) // all names are equally long
			for {
				if _, err := c.Read(buf); err != nil {
					return
				}
				h.note("tcp", string(buf))
			}
		}()
	}
}

func sayTCP(peer string) {
	for ; ; time.Sleep(beat) {
		if c, err := net.DialTimeout("tcp", peer+":9001", 200*time.Millisecond); err == nil {
			for {
				if _, err := c.Write([]byte(*name)); err != nil {
					break
				}
				time.Sleep(beat)
			}
			c.Close()
		}
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "fatal:", err)
	os.Exit(1)
}

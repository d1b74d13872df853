package holder_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/jepsentest/go/jepsentest/cluster/holder"
)

// fake is a packet filter in memory.
type fake struct {
	mu     sync.Mutex
	rules  []holder.RuleState
	ports  []uint16
	refuse error
}

func (f *fake) Apply(rules []holder.Rule) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return f.refuse
	}
	f.rules = nil
	for _, r := range rules {
		f.rules = append(f.rules, holder.RuleState{Rule: r})
	}
	return nil
}

func (f *fake) Installed() ([]holder.RuleState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]holder.RuleState{}, f.rules...), nil
}

func (f *fake) Listening() ([]uint16, error) { return f.ports, nil }

// arrive lets n packets meet a rule, if it is in force.
func (f *fake) arrive(r holder.Rule, n uint64) (dropped uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.rules {
		if f.rules[i].Rule == r {
			f.rules[i].Packets += n
			return n
		}
	}
	return 0
}

func serve(t testing.TB, b holder.Backend) holder.Client {
	srv := httptest.NewServer(holder.NewHandler(b))
	t.Cleanup(srv.Close)
	return holder.Client{Base: srv.URL}
}

func in(peer string) holder.Rule {
	return holder.Rule{Direction: holder.In, Peer: netip.MustParseAddr(peer)}
}
func out(peer string) holder.Rule {
	return holder.Rule{Direction: holder.Out, Peer: netip.MustParseAddr(peer)}
}

func rulesOf(st holder.State) (rules []holder.Rule) {
	for _, r := range st.Rules {
		rules = append(rules, r.Rule)
	}
	return rules
}

func TestDeclare(t *testing.T) {
	c := serve(t, &fake{})
	for _, tc := range []struct {
		name           string
		declared, want []holder.Rule
	}{
		{"one", []holder.Rule{in("10.0.0.2")}, []holder.Rule{in("10.0.0.2")}},
		{"the same again", []holder.Rule{in("10.0.0.2")}, []holder.Rule{in("10.0.0.2")}},
		{"others instead, sorted, each once",
			[]holder.Rule{out("10.0.0.9"), in("10.0.0.3"), out("10.0.0.9"), in("fd00::1")},
			[]holder.Rule{in("10.0.0.3"), in("fd00::1"), out("10.0.0.9")}},
		{"IPv4 in IPv6", []holder.Rule{in("::ffff:10.0.0.2")}, []holder.Rule{in("10.0.0.2")}},
		{"none", nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			st, err := c.Declare(t.Context(), tc.declared)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(rulesOf(st)).To(gomega.Equal(tc.want))
			g.Expect(c.State(t.Context())).To(gomega.Equal(st))
		})
	}
}

func TestDeclarationsThatMakeNoSense(t *testing.T) {
	g := gomega.NewWithT(t)
	c := serve(t, &fake{})
	before, err := c.Declare(t.Context(), []holder.Rule{in("10.0.0.2")})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	for body, want := range map[string]string{
		`[{"direction":"up","peer":"10.0.0.1"}]`:           `direction "up" is neither "in" nor "out"`,
		`[{"direction":"in"}]`:                             "no peer address",
		`[{"direction":"in","peer":"127.0.0.1"}]`:          "peer 127.0.0.1 is not the address of another node",
		`[{"direction":"in","peer":"10.0.0.1","loss":50}]`: `unknown field "loss"`,
		`{`:                                    "unexpected EOF",
		`[` + strings.Repeat(" ", 2<<20) + `]`: "too large",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, c.Base+"/rules", strings.NewReader(body))
		g.Expect(err).NotTo(gomega.HaveOccurred())
		resp, err := http.DefaultClient.Do(req)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		msg := make([]byte, 1024)
		n, _ := resp.Body.Read(msg)
		resp.Body.Close()
		g.Expect(resp.StatusCode).To(gomega.Equal(http.StatusBadRequest), body[:min(len(body), 60)])
		g.Expect(string(msg[:n])).To(gomega.ContainSubstring(want))
	}
	g.Expect(c.State(t.Context())).To(gomega.Equal(before), "nothing has changed")
}

func TestKernelRefuses(t *testing.T) {
	g := gomega.NewWithT(t)
	f := &fake{}
	c := serve(t, f)
	before, err := c.Declare(t.Context(), []holder.Rule{in("10.0.0.2")})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	f.refuse = errors.New("operation not permitted")
	_, err = c.Declare(t.Context(), nil)
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("holder PUT /rules: 500 Internal Server Error: declare rules: operation not permitted")))
	g.Expect(c.State(t.Context())).To(gomega.Equal(before))
}

// TestDroppedCountsEverything declares and lets packets arrive at random: Dropped is the number
// of all that met a rule, whether or not that rule is still in force.
func TestDroppedCountsEverything(t *testing.T) {
	all := []holder.Rule{in("10.0.0.2"), in("10.0.0.3"), out("10.0.0.2"), in("fd00::2")}
	rapid.Check(t, func(rt *rapid.T) {
		f := &fake{}
		srv := httptest.NewServer(holder.NewHandler(f))
		defer srv.Close()
		c := holder.Client{Base: srv.URL, HTTP: srv.Client()}
		var dropped uint64
		for range rapid.IntRange(1, 10).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "declare") {
				rules := rapid.SliceOfN(rapid.SampledFrom(all), 0, 6).Draw(rt, "rules")
				if _, err := c.Declare(context.Background(), rules); err != nil {
					rt.Fatal(err)
				}
			} else {
				dropped += f.arrive(rapid.SampledFrom(all).Draw(rt, "rule"), rapid.Uint64Range(1, 9).Draw(rt, "packets"))
			}
			st, err := c.State(context.Background())
			if err != nil {
				rt.Fatal(err)
			}
			if st.Dropped != dropped {
				rt.Fatalf("dropped %d, counted %d", dropped, st.Dropped)
			}
		}
	})
}

func TestConcurrentDeclarations(t *testing.T) {
	g := gomega.NewWithT(t)
	c := serve(t, &fake{ports: []uint16{80}})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			want := []holder.Rule{in(fmt.Sprintf("10.0.0.%d", i+1))}
			st, err := c.Declare(t.Context(), want)
			if err != nil || len(st.Rules) != 1 || st.Rules[0].Rule != want[0] {
				t.Errorf("declared %v, got %v, %v", want, st, err)
			}
		})
	}
	wg.Wait()
	g.Expect(c.Healthy(t.Context())).To(gomega.Succeed())
	g.Expect(c.Listening(t.Context())).To(gomega.Equal([]uint16{80}))
}

func TestParseListening(t *testing.T) {
	g := gomega.NewWithT(t)
	const heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
	tcp := heading +
		"   0: 0B00007F:9C7F 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n" +
		"   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n" +
		"   2: 020012AC:1F91 030012AC:C350 01 00000000:00000000 00:00000000 00000000     0\n"
	tcp6 := heading +
		"   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000\n" +
		"   1: 00000000000000000000000000000000:BB27 00000000000000000000000000000000:0000 0A 00000000:00000000\n"
	g.Expect(holder.ParseListening(strings.NewReader(tcp), strings.NewReader(tcp6))).
		To(gomega.Equal([]uint16{8080, 40063, holder.ControlPort}))
	g.Expect(holder.ParseListening()).To(gomega.BeEmpty())
	_, err := holder.ParseListening(strings.NewReader(heading + "0: nonsense 00:00 0A\n"))
	g.Expect(err).To(gomega.HaveOccurred())
}

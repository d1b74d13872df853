package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/onsi/gomega"

	"github.com/jepsentest/go/jepsentest/cluster"
)

// Tests in this file run real containers and are skipped where no engine answers.

const testPort = 8080

var three = []string{"n1", "n2", "n3"}

// testnode is the image of the test's own database.
func testnode() cluster.Image {
	return cluster.GoBinary(cluster.GoBinarySpec{Name: "testnode", Dir: "testdata/testnode"})
}

func testnodeCommand(extra ...string) func(cluster.Peer, []cluster.Peer) []string {
	return func(self cluster.Peer, all []cluster.Peer) []string {
		var others []string
		for _, p := range all {
			if p.Name != self.Name {
				others = append(others, p.Name)
			}
		}
		return append([]string{"testnode", "-name", self.Name, "-peers", strings.Join(others, ",")}, extra...)
	}
}

func testSpec(t testing.TB, nodes ...string) cluster.Spec {
	return cluster.Spec{
		RunID:      runOf(t),
		Name:       t.Name(),
		Nodes:      nodes,
		Image:      testnode(),
		Command:    testnodeCommand(),
		ClientPort: testPort,
		Log:        t.Logf,
	}
}

// runOf is a run id that belongs to one execution of one test.
func runOf(t testing.TB) string {
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano())
}

// needEngine skips the test where no container engine answers.
func needEngine(t testing.TB) {
	t.Helper()
	if err := cluster.Sweep(t.Context(), t.Logf); errors.Is(err, cluster.ErrNoEngine) {
		t.Skipf("needs a container engine: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// engineClient asks the engine behind the package's back.
func engineClient(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// objects lists the containers and networks of a run.
func objects(t testing.TB, run string) []string {
	t.Helper()
	c := engineClient(t)
	f := make(client.Filters).Add("label", "org.jepsentest.run="+run)
	containers, err := c.ContainerList(context.Background(), client.ContainerListOptions{All: true, Filters: f})
	if err != nil {
		t.Fatal(err)
	}
	networks, err := c.NetworkList(context.Background(), client.NetworkListOptions{Filters: f})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, x := range containers.Items {
		names = append(names, "container "+strings.Join(x.Names, ","))
	}
	for _, x := range networks.Items {
		names = append(names, "network "+x.Name)
	}
	return names
}

// start starts a cluster that is closed, and seen to be gone, when the test ends.
func start(t testing.TB, spec cluster.Spec) *cluster.Cluster {
	t.Helper()
	needEngine(t)
	c, err := cluster.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// t.Context has ended by now: Close must do without.
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if left := objects(t, spec.RunID); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return c
}

// timed reports how long f takes.
func timed(t testing.TB, what string, f func() error) {
	t.Helper()
	from := time.Now()
	if err := f(); err != nil {
		t.Fatal(err)
	}
	t.Logf("took %v: %s", time.Since(from).Round(time.Millisecond), what)
}

// cutAfter is the age of the last heartbeat, of which there is one every 10 ms, that proves a cut.
const cutAfter = 250

// matrix says, as "n1<n2", who hears whom, by both protocols.
func matrix(t testing.TB, c *cluster.Cluster) (string, error) {
	t.Helper()
	var out []string
	for _, n := range c.Nodes() {
		resp, err := http.Get("http://" + n.Addr() + "/heard")
		if err != nil {
			return "", err
		}
		var ages map[string]int64
		err = json.NewDecoder(resp.Body).Decode(&ages)
		resp.Body.Close()
		if err != nil {
			return "", err
		}
		for _, p := range c.Nodes() {
			if p == n {
				continue
			}
			hears := func(proto string) bool {
				age, ever := ages[proto+" "+p.Name()]
				return ever && age < cutAfter
			}
			switch udp, tcp := hears("udp"), hears("tcp"); {
			case udp && tcp:
				out = append(out, n.Name()+"<"+p.Name())
			case udp != tcp:
				out = append(out, fmt.Sprintf("%s?%s(udp=%v,tcp=%v)", n.Name(), p.Name(), udp, tcp))
			}
		}
	}
	return strings.Join(out, " "), nil
}

func TestNodesLifeAndNetwork(t *testing.T) {
	g := gomega.NewWithT(t)
	spec := testSpec(t, three...)
	needEngine(t)
	var c *cluster.Cluster
	timed(t, "3 nodes ready", func() error { c = start(t, spec); return nil })
	hears := func() (string, error) { return matrix(t, c) }
	g.Eventually(hears).WithTimeout(10 * time.Second).Should(gomega.Equal("n1<n2 n1<n3 n2<n1 n2<n3 n3<n1 n3<n2"))
	ctx := t.Context()

	g.Expect(c.CanPartition()).To(gomega.Succeed())
	t.Run("one-way cut", func(t *testing.T) {
		g := gomega.NewWithT(t)
		before, err := c.PartitionCounters(ctx)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		timed(t, "one-way cut", func() error { return c.Partition(ctx, cluster.Grudge{"n1": {"n2"}}) })
		// The acknowledgements of the TCP connection from n1 to n2 are packets from n2: n1
		// drops them, so that connection dies too, while UDP shows the direction.
		g.Eventually(hears).WithTimeout(10 * time.Second).Should(gomega.Or(
			gomega.Equal("n1<n3 n2<n3 n3<n1 n3<n2"),
			gomega.Equal("n1<n3 n2?n1(udp=true,tcp=false) n2<n3 n3<n1 n3<n2")))
		g.Eventually(hears).WithTimeout(10 * time.Second).Should(gomega.Equal("n1<n3 n2?n1(udp=true,tcp=false) n2<n3 n3<n1 n3<n2"))
		after, err := c.PartitionCounters(ctx)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(after["n1"]).To(gomega.BeNumerically(">", before["n1"]))
		g.Expect(after["n2"]).To(gomega.Equal(before["n2"]))
		g.Expect(after["n3"]).To(gomega.Equal(before["n3"]))
	})
	t.Run("a declaration replaces the one before", func(t *testing.T) {
		g := gomega.NewWithT(t)
		isolateN3 := cluster.Grudge{"n1": {"n3", "n3"}, "n2": {"n3"}, "n3": {"n1", "n2"}}
		timed(t, "symmetric cut", func() error { return c.Partition(ctx, isolateN3) })
		g.Expect(c.Partition(ctx, isolateN3)).To(gomega.Succeed())
		g.Eventually(hears).WithTimeout(10 * time.Second).Should(gomega.Equal("n1<n2 n2<n1"))
	})
	t.Run("a cut outlives the process", func(t *testing.T) {
		g := gomega.NewWithT(t)
		n3 := c.Node("n3")
		g.Expect(n3.Kill(ctx)).To(gomega.Succeed())
		g.Expect(n3.Start(ctx)).To(gomega.Succeed())
		g.Expect(n3.WaitReady(ctx)).To(gomega.Succeed())
		g.Consistently(hears).WithTimeout(500 * time.Millisecond).Should(gomega.Equal("n1<n2 n2<n1"))
	})
	t.Run("heal", func(t *testing.T) {
		g := gomega.NewWithT(t)
		timed(t, "heal", func() error { return c.Heal(ctx) })
		g.Eventually(hears).WithTimeout(10 * time.Second).Should(gomega.Equal("n1<n2 n1<n3 n2<n1 n2<n3 n3<n1 n3<n2"))
		first, err := c.PartitionCounters(ctx)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(first).To(gomega.HaveKeyWithValue("n3", gomega.BeNumerically(">", 0)), "counters outlive the rules")
		g.Consistently(func() (map[string]uint64, error) { return c.PartitionCounters(ctx) }).
			WithTimeout(200 * time.Millisecond).Should(gomega.Equal(first))
		g.Expect(c.Heal(ctx)).To(gomega.Succeed())
	})
	t.Run("an unknown node", func(t *testing.T) {
		g := gomega.NewWithT(t)
		g.Expect(c.Partition(ctx, cluster.Grudge{"n1": {"n9"}})).To(gomega.MatchError(
			`partition: no node is called "n9"; there are n1, n2, n3`))
	})
	t.Run("kill and start", func(t *testing.T) {
		g := gomega.NewWithT(t)
		n := c.Node("n1")
		addr, ip := n.Addr(), n.IP()
		timed(t, "kill", func() error { return n.Kill(ctx) })
		g.Expect(n.State(ctx)).To(gomega.Equal(cluster.Exited))
		g.Expect(n.Kill(ctx)).To(gomega.Succeed(), "again")
		g.Expect(n.Resume(ctx)).To(gomega.Succeed())
		g.Expect(n.Stop(ctx, time.Second)).To(gomega.Succeed())
		g.Expect(n.Pause(ctx)).NotTo(gomega.Succeed())
		g.Expect(n.WaitReady(ctx)).To(gomega.And(
			gomega.MatchError(cluster.ErrNotReady), gomega.MatchError(gomega.ContainSubstring("n1 exited with code 137"))))
		timed(t, "start", func() error { return n.Start(ctx) })
		timed(t, "ready again", func() error { return n.WaitReady(ctx) })
		g.Expect(n.Start(ctx)).To(gomega.Succeed(), "again")
		g.Expect(n.State(ctx)).To(gomega.Equal(cluster.Running))
		g.Expect(n.Addr()).To(gomega.Equal(addr))
		g.Expect(n.IP()).To(gomega.Equal(ip))
		resp, err := http.Get("http://" + addr + "/heard")
		g.Expect(err).NotTo(gomega.HaveOccurred())
		resp.Body.Close()
	})
	t.Run("pause and resume", func(t *testing.T) {
		g := gomega.NewWithT(t)
		n := c.Node("n2")
		get := func() error {
			hc := http.Client{Timeout: 300 * time.Millisecond}
			resp, err := hc.Get("http://" + n.Addr() + "/heard")
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
		timed(t, "pause", func() error { return n.Pause(ctx) })
		g.Expect(n.Pause(ctx)).To(gomega.Succeed(), "again")
		g.Expect(n.State(ctx)).To(gomega.Equal(cluster.Paused))
		g.Expect(get()).NotTo(gomega.Succeed())
		timed(t, "resume", func() error { return n.Resume(ctx) })
		g.Expect(n.Resume(ctx)).To(gomega.Succeed(), "again")
		g.Expect(n.State(ctx)).To(gomega.Equal(cluster.Running))
		g.Expect(get()).To(gomega.Succeed())

		g.Expect(n.Pause(ctx)).To(gomega.Succeed())
		timed(t, "kill a paused node", func() error { return n.Kill(ctx) })
		g.Expect(n.State(ctx)).To(gomega.Equal(cluster.Exited))
		g.Expect(n.Start(ctx)).To(gomega.Succeed())
		g.Expect(n.Pause(ctx)).To(gomega.Succeed())
		g.Expect(n.Start(ctx)).To(gomega.Succeed(), "starting a paused node resumes it")
		g.Expect(n.State(ctx)).To(gomega.Equal(cluster.Running))
		g.Expect(n.WaitReady(ctx)).To(gomega.Succeed())
	})
	t.Run("stop with grace", func(t *testing.T) {
		g := gomega.NewWithT(t)
		n := c.Node("n3")
		g.Expect(n.Pause(ctx)).To(gomega.Succeed())
		timed(t, "stop", func() error { return n.Stop(ctx, 10*time.Second) })
		g.Expect(n.State(ctx)).To(gomega.Equal(cluster.Exited))
		var log bytes.Buffer
		g.Expect(n.Logs(ctx, &log)).To(gomega.Succeed())
		g.Expect(log.String()).To(gomega.HaveSuffix("terminated\n"))
		g.Expect(n.Start(ctx)).To(gomega.Succeed())
	})
	t.Run("logs", func(t *testing.T) { testLogs(t, c.Node("n2")) })
	t.Run("closing twice, while paused, with a context that has ended", func(t *testing.T) {
		g := gomega.NewWithT(t)
		g.Expect(c.Node("n1").Pause(ctx)).To(gomega.Succeed())
		ended, cancel := context.WithCancel(ctx)
		cancel()
		timed(t, "close", func() error { return c.Close(ended) })
		g.Expect(objects(t, spec.RunID)).To(gomega.BeEmpty())
		g.Expect(c.Close(ctx)).To(gomega.Succeed())
	})
}

// testLogs writes numbered lines in several lives of the process, each ended in another way.
func testLogs(t *testing.T, n *cluster.Node) {
	g := gomega.NewWithT(t)
	ctx := t.Context()
	var before bytes.Buffer
	g.Expect(n.Logs(ctx, &before)).To(gomega.Succeed())
	const perLife = 2000
	want := []string{}
	for life := range 3 {
		from, to := life*perLife, (life+1)*perLife
		resp, err := http.Post(fmt.Sprintf("http://%s/log?from=%d&to=%d", n.Addr(), from, to), "", nil)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		resp.Body.Close()
		for i := from; i < to; i++ {
			want = append(want, fmt.Sprintf("line %d", i))
		}
		g.Expect(n.Kill(ctx)).To(gomega.Succeed())
		g.Expect(n.Start(ctx)).To(gomega.Succeed())
		g.Expect(n.WaitReady(ctx)).To(gomega.Succeed())
	}
	var first, second bytes.Buffer
	g.Expect(n.Logs(ctx, &first)).To(gomega.Succeed())
	g.Expect(n.Logs(ctx, &second)).To(gomega.Succeed())
	g.Expect(second.String()).To(gomega.Equal(first.String()), "reading does not consume")
	g.Expect(first.String()).To(gomega.HavePrefix(before.String()), "nothing is lost")
	var got []string
	boots := 0
	for line := range strings.Lines(strings.TrimPrefix(first.String(), before.String())) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "line "):
			got = append(got, line)
		case strings.HasPrefix(line, "boot "):
			boots++
		}
	}
	g.Expect(boots).To(gomega.Equal(3))
	// The two streams are two pipes to the engine: each keeps its order, and nothing is
	// missing or repeated.
	parity := func(lines []string, odd bool) (out []string) {
		for _, l := range lines {
			if strings.ContainsAny(l[len(l)-1:], "13579") == odd {
				out = append(out, l)
			}
		}
		return out
	}
	g.Expect(got).To(gomega.HaveLen(len(want)))
	g.Expect(parity(got, false)).To(gomega.Equal(parity(want, false)))
	g.Expect(parity(got, true)).To(gomega.Equal(parity(want, true)))
}

func TestTwoClustersAtOnce(t *testing.T) {
	t.Parallel()
	needEngine(t)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			spec := testSpec(t, "n1")
			c, err := cluster.Start(t.Context(), spec)
			if err != nil {
				t.Error(err)
				return
			}
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if left := objects(t, spec.RunID); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	wg.Wait()
}

// removeRun removes what a test has kept on purpose.
func removeRun(t testing.TB, run string) {
	c := engineClient(t)
	ctx := context.Background()
	f := make(client.Filters).Add("label", "org.jepsentest.run="+run)
	containers, err := c.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: f})
	if err != nil {
		t.Error(err)
	}
	for _, x := range containers.Items {
		if _, err := c.ContainerRemove(ctx, x.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}
	networks, err := c.NetworkList(ctx, client.NetworkListOptions{Filters: f})
	if err != nil {
		t.Error(err)
	}
	for _, x := range networks.Items {
		if _, err := c.NetworkRemove(ctx, x.ID, client.NetworkRemoveOptions{}); err != nil {
			t.Error(err)
		}
	}
}

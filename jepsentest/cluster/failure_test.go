package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/jepsentest/go/jepsentest/cluster"
)

// mustNotStart starts spec, which has to fail, sees that nothing is left, and returns the error.
func mustNotStart(t *testing.T, ctx context.Context, spec cluster.Spec) error {
	t.Helper()
	needEngine(t)
	c, err := cluster.Start(ctx, spec)
	if err == nil {
		_ = c.Close(ctx)
		t.Fatal("started")
	}
	if left := objects(t, spec.RunID); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	t.Logf("error: %v", err)
	return err
}

func TestPortThatNeverOpens(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	spec := testSpec(t, "n1", "n2")
	spec.Command = testnodeCommand("-port", "0")
	spec.ReadyTimeout = time.Second
	err := mustNotStart(t, t.Context(), spec)
	g.Expect(err).To(gomega.MatchError(cluster.ErrNotReady))
	g.Expect(err.Error()).To(gomega.MatchRegexp(
		`^cluster start: node is not ready: n[12] did not open port 8080 within 1s; its last log lines:\n\tboot 1 of n[12]$`))
}

func TestNodeThatExits(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	spec := testSpec(t, "n1")
	spec.Command = testnodeCommand("-exit", "3")
	err := mustNotStart(t, t.Context(), spec)
	g.Expect(err).To(gomega.MatchError(cluster.ErrNotReady))
	g.Expect(err.Error()).To(gomega.ContainSubstring("n1 exited with code 3; its last log lines:"))
	g.Expect(err.Error()).To(gomega.ContainSubstring("\texiting as told"))
}

func TestCommandThatIsNotInTheImage(t *testing.T) {
	t.Parallel()
	spec := testSpec(t, "n1")
	spec.Command = func(cluster.Peer, []cluster.Peer) []string { return []string{"nonesuch"} }
	err := mustNotStart(t, t.Context(), spec)
	gomega.NewWithT(t).Expect(err.Error()).To(gomega.And(
		gomega.HavePrefix("cluster start: node n1: start: "), gomega.ContainSubstring("nonesuch")))
}

func TestStartIsGivenUp(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	for _, after := range []time.Duration{0, 300 * time.Millisecond, time.Second, 2500 * time.Millisecond} {
		spec := testSpec(t, three...)
		spec.Command = testnodeCommand("-port", "0") // or it might be ready in time
		ctx, cancel := context.WithTimeout(t.Context(), after)
		g.Expect(mustNotStart(t, ctx, spec)).To(gomega.MatchError(context.DeadlineExceeded), "after %v", after)
		cancel()
	}
}

func TestReadyOfOnesOwn(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	spec := testSpec(t, "n1")
	spec.ReadyTimeout = 200 * time.Millisecond
	spec.Ready = func(_ context.Context, n *cluster.Node) error { return fmt.Errorf("%s has no leader", n.Name()) }
	err := mustNotStart(t, t.Context(), spec)
	g.Expect(err.Error()).To(gomega.ContainSubstring("n1 did not become ready (n1 has no leader) within 200ms"))
}

func TestImagesThatCannotBeHad(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	spec := testSpec(t, "n1")
	spec.Image = cluster.Registry("localhost:1/nonesuch:1")
	err := mustNotStart(t, t.Context(), spec)
	g.Expect(err.Error()).To(gomega.HavePrefix("cluster start: image localhost:1/nonesuch:1: is not on this machine and cannot be pulled; "))

	spec.Image = cluster.GoBinary(cluster.GoBinarySpec{
		Name: "uuid", Module: "github.com/google/uuid", Version: "v99.0.0", Main: "package main\n",
	})
	err = mustNotStart(t, t.Context(), spec)
	g.Expect(err.Error()).To(gomega.HavePrefix(
		"cluster start: image uuid v99.0.0 built from Go modules: there is no github.com/google/uuid at version v99.0.0 to be had: go get: "))

	var log []string
	spec.Log = func(format string, args ...any) { log = append(log, fmt.Sprintf(format, args...)) }
	spec.Image = cluster.FirstOf(cluster.Registry("localhost:1/nonesuch:1"), testnode())
	c := start(t, spec)
	g.Expect(c.Node("n1").State(t.Context())).To(gomega.Equal(cluster.Running))
	g.Expect(strings.Join(log, "\n")).To(gomega.MatchRegexp(
		`(?s)image: localhost:1/nonesuch:1 cannot be had: .*image: using testnode local, built here as jepsentest/testnode:local-`))
}

func TestStopKillsAfterGrace(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	spec := testSpec(t, "n1")
	spec.Command = testnodeCommand("-ignore-term")
	n := start(t, spec).Node("n1")
	from := time.Now()
	g.Expect(n.Stop(t.Context(), 300*time.Millisecond)).To(gomega.Succeed())
	g.Expect(time.Since(from)).To(gomega.BeNumerically(">=", 300*time.Millisecond))
	g.Expect(n.State(t.Context())).To(gomega.Equal(cluster.Exited))
}

// childVariable makes the test binary play a test process of its own: "start" starts a cluster
// of the run in runVariable, says so and waits; "no engine" tries to start one.
const (
	childVariable = "JEPSENTEST_CLUSTER_CHILD"
	runVariable   = "JEPSENTEST_CLUSTER_RUN"
)

func TestMain(m *testing.M) {
	switch os.Getenv(childVariable) {
	case "":
		os.Exit(m.Run())
	case "start":
		if _, err := cluster.Start(context.Background(), cluster.Spec{
			RunID: os.Getenv(runVariable), Nodes: []string{"n1"}, Image: testnode(),
			Command: testnodeCommand(), ClientPort: testPort,
		}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("started")
		select {}
	case "no engine":
		_, err := cluster.Start(context.Background(), cluster.Spec{Nodes: []string{"n1"}, Image: testnode(), ClientPort: testPort})
		fmt.Println(errors.Is(err, cluster.ErrNoEngine), err)
		os.Exit(1)
	}
}

// child starts the test binary as another process.
func child(t *testing.T, role string, env ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(append(os.Environ(), childVariable+"="+role), env...)
	return cmd
}

func TestSweepAfterSigkill(t *testing.T) {
	needEngine(t)
	g := gomega.NewWithT(t)
	dead, live := runOf(t)+"-dead", runOf(t)+"-live"
	var children []*exec.Cmd
	for _, run := range []string{dead, live} {
		cmd := child(t, "start", runVariable+"="+run)
		out, err := cmd.StdoutPipe()
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(cmd.Start()).To(gomega.Succeed())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		said := make([]byte, 7)
		_, err = out.Read(said)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(string(said)).To(gomega.Equal("started"))
		children = append(children, cmd)
	}
	g.Expect(cluster.Sweep(t.Context(), t.Logf)).To(gomega.Succeed())
	g.Expect(objects(t, dead)).To(gomega.HaveLen(3), "a live run is not touched")

	g.Expect(children[0].Process.Kill()).To(gomega.Succeed())
	_ = children[0].Wait()
	// Any other test process on this machine may sweep it as well from here on.
	g.Expect(cluster.Sweep(t.Context(), t.Logf)).To(gomega.Succeed())
	g.Expect(objects(t, dead)).To(gomega.BeEmpty())
	g.Expect(objects(t, live)).To(gomega.HaveLen(3))

	// A zombie is as dead: its parent, this process, has not waited for it yet.
	g.Expect(children[1].Process.Kill()).To(gomega.Succeed())
	g.Eventually(func() ([]string, error) {
		err := cluster.Sweep(t.Context(), t.Logf)
		return objects(t, live), err
	}).WithTimeout(10 * time.Second).Should(gomega.BeEmpty())
}

func TestNoEngine(t *testing.T) {
	g := gomega.NewWithT(t)
	out, _ := child(t, "no engine", "DOCKER_HOST=unix:///nonexistent/docker.sock").CombinedOutput()
	g.Expect(string(out)).To(gomega.HavePrefix(
		"true cluster start: no container engine answers at DOCKER_HOST=unix:///nonexistent/docker.sock: start Docker, or set DOCKER_HOST to where it listens ("))
}

func TestKeptNodes(t *testing.T) {
	t.Parallel()
	needEngine(t)
	g := gomega.NewWithT(t)
	spec := testSpec(t, "n1")
	spec.KeepNodes = true
	var log []string
	spec.Log = func(format string, args ...any) { log = append(log, fmt.Sprintf(format, args...)) }
	c, err := cluster.Start(t.Context(), spec)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(c.Close(t.Context())).To(gomega.Succeed())
	g.Expect(objects(t, spec.RunID)).To(gomega.HaveLen(3))
	// The log says how to remove them; the words after "run: " are a command.
	_, command, ok := strings.Cut(log[len(log)-1], "run: ")
	g.Expect(ok).To(gomega.BeTrue())
	if _, err := exec.LookPath("docker"); err != nil {
		command = ""
	}
	t.Cleanup(func() { removeRun(t, spec.RunID) })
	if command != "" {
		out, err := exec.Command("sh", "-c", command).CombinedOutput()
		g.Expect(err).NotTo(gomega.HaveOccurred(), string(out))
		g.Expect(objects(t, spec.RunID)).To(gomega.BeEmpty())
	}
}

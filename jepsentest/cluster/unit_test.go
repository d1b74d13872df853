package cluster

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
)

// Tests in this file need no engine.

func TestSpecValidate(t *testing.T) {
	valid := func() Spec {
		return Spec{Nodes: []string{"n1", "n2"}, Image: Registry("db:1"), ClientPort: 2379}
	}
	for _, tc := range []struct {
		want   string
		change func(*Spec)
	}{
		{"", func(*Spec) {}},
		{"", func(s *Spec) { *s = s.withDefaults() }},
		{"spec: Nodes is empty; name at least one node", func(s *Spec) { s.Nodes = nil }},
		{`spec: two nodes are called "n1"`, func(s *Spec) { s.Nodes = []string{"n1", "n2", "n1"} }},
		{`spec: node name "N_1" is not a host name label of lower-case letters, digits and hyphens`, func(s *Spec) { s.Nodes = []string{"N_1"} }},
		{`spec: node name "" is not a host name label of lower-case letters, digits and hyphens`, func(s *Spec) { s.Nodes = []string{""} }},
		{`spec: RunID "a b" has other characters than letters, digits and ._:-`, func(s *Spec) { s.RunID = "a b" }},
		{"spec: Image is nil; use Registry, GoBinary or FirstOf", func(s *Spec) { s.Image = nil }},
		{"spec: image reference is empty", func(s *Spec) { s.Image = Registry(" ") }},
		{"spec: FirstOf has no images", func(s *Spec) { s.Image = FirstOf() }},
		{"spec: FirstOf has an image that is nil", func(s *Spec) { s.Image = FirstOf(nil) }},
		{"spec: image reference is empty", func(s *Spec) { s.Image = FirstOf(Registry("db:1"), Registry("")) }},
		{"spec: ClientPort has no port", func(s *Spec) { s.ClientPort = 0 }},
		{"spec: ClientPort 65536 is not a port number", func(s *Spec) { s.ClientPort = 65536 }},
		{"spec: ClientPort 47911 is taken by the node's holder", func(s *Spec) { s.ClientPort = 47911 }},
		{"spec: Ports -1 is not a port number", func(s *Spec) { s.Ports = []int{-1} }},
		{"spec: port 2379 is named twice", func(s *Spec) { s.Ports = []int{80, 2379} }},
		{"spec: port 80 is named twice", func(s *Spec) { s.Ports = []int{80, 80} }},
		{`spec: DataDir "data" is not an absolute path`, func(s *Spec) { s.DataDir = "data" }},
		{"spec: ReadyTimeout -1ns is negative", func(s *Spec) { s.ReadyTimeout = -1 }},
		{`spec: GoBinary name "Etcd" is not made of lower-case letters, digits and hyphens`, func(s *Spec) { s.Image = GoBinary(GoBinarySpec{Name: "Etcd"}) }},
		{"spec: GoBinary db names no Module; without one there is a Dir and neither Version nor Main", func(s *Spec) { s.Image = GoBinary(GoBinarySpec{Name: "db"}) }},
		{"spec: GoBinary db has neither a Version nor a Dir to take it from", func(s *Spec) { s.Image = GoBinary(GoBinarySpec{Name: "db", Module: "m", Main: "x"}) }},
		{"spec: GoBinary db has neither a Main nor a Dir to build", func(s *Spec) { s.Image = GoBinary(GoBinarySpec{Name: "db", Module: "m", Version: "v1.0.0"}) }},
	} {
		s := valid()
		tc.change(&s)
		err := s.Validate()
		if got := errorText(err); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
	_, err := Start(t.Context(), Spec{})
	gomega.NewWithT(t).Expect(err).To(gomega.MatchError("cluster start: spec: Nodes is empty; name at least one node"))
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// recorder is a driver that keeps what is declared.
type recorder struct {
	driver // panics where a test calls what it should not
	calls  chan string
	err    error
}

func (r *recorder) isolate(_ context.Context, node string, from []string) error {
	r.calls <- node + ":" + strings.Join(from, ",")
	if node == "n1" {
		return r.err
	}
	return nil
}

func TestPartitionDeclaresEveryNode(t *testing.T) {
	r := &recorder{calls: make(chan string, 100)}
	c := &Cluster{spec: Spec{Nodes: []string{"n1", "n2", "n3"}}, driver: r}
	for _, n := range c.spec.Nodes {
		c.nodes = append(c.nodes, &Node{name: n, cluster: c})
	}
	declared := func() (out []string) {
		for len(r.calls) > 0 {
			out = append(out, <-r.calls)
		}
		slices.Sort(out)
		return out
	}
	g := gomega.NewWithT(t)
	g.Expect(c.Partition(t.Context(), Grudge{"n2": {"n1", "n3"}})).To(gomega.Succeed())
	g.Expect(declared()).To(gomega.Equal([]string{"n1:", "n2:n1,n3", "n3:"}))
	g.Expect(c.Heal(t.Context())).To(gomega.Succeed())
	g.Expect(declared()).To(gomega.Equal([]string{"n1:", "n2:", "n3:"}))

	g.Expect(c.Partition(t.Context(), Grudge{"n2": {"n1"}, "n4": {"n1"}})).To(gomega.MatchError(`partition: no node is called "n4"; there are n1, n2, n3`))
	g.Expect(c.Partition(t.Context(), Grudge{"n2": {"n5"}})).To(gomega.MatchError(`partition: no node is called "n5"; there are n1, n2, n3`))
	g.Expect(c.Partition(t.Context(), Grudge{"n2": {"n2"}})).To(gomega.MatchError("partition: node n2 cannot be cut off from itself"))
	g.Expect(declared()).To(gomega.BeEmpty(), "nothing changes")

	r.err = io.ErrUnexpectedEOF
	g.Expect(c.Heal(t.Context())).To(gomega.MatchError("heal: node n1: unexpected EOF"))
	g.Expect(declared()).To(gomega.HaveLen(3), "a heal reaches the others")
	g.Expect(c.Node("n9")).To(gomega.BeNil())
}

func TestOwnerDead(t *testing.T) {
	processes := func(pid int) (string, processState) {
		switch pid {
		case 1:
			return "boot:100", processExists
		case 2:
			return "", processExists // its start cannot be had
		case 3:
			return "", processUnknown
		default:
			return "", processGone
		}
	}
	for _, tc := range []struct {
		what string
		o    owner
		want bool
	}{
		{"alive", owner{"here", 1, "boot:100"}, false},
		{"its id was given to another", owner{"here", 1, "boot:99"}, true},
		{"gone", owner{"here", 9, "boot:100"}, true},
		{"gone, start never known", owner{"here", 9, ""}, true},
		{"gone here, but of another machine", owner{"there", 9, "boot:100"}, false},
		{"start was not known", owner{"here", 1, ""}, false},
		{"start cannot be had", owner{"here", 2, "boot:100"}, false},
		{"cannot be looked up", owner{"here", 3, "boot:100"}, false},
	} {
		if got := tc.o.dead("here", processes); got != tc.want {
			t.Errorf("%s: dead is %v", tc.what, got)
		}
		back, err := ownerOf(tc.o.labels())
		if err != nil || back != tc.o {
			t.Errorf("%s: labels give %v, %v", tc.what, back, err)
		}
	}
	if self().dead(hostID(), processStarted) {
		t.Error("this process is dead")
	}
	if self().started == "" {
		t.Error("this process does not know when it started")
	}
}

func TestLeftovers(t *testing.T) {
	gone := func(pid int) (string, processState) {
		if pid == 1 {
			return "s", processExists
		}
		return "", processGone
	}
	l := func(cluster string, pid int, more ...string) map[string]string {
		m := owner{"here", pid, "s"}.labels()
		m[labelCluster], m[labelRun] = cluster, "run-"+cluster
		for _, k := range more {
			m[k] = "true"
		}
		return m
	}
	got := leftovers([]map[string]string{
		l("dead", 7), l("live", 1), l("dead", 7), l("kept", 8, labelKeep), l("", 9),
		{"com.example": "x"}, {labelCluster: "odd", labelHost: "here", labelPid: "many"}, l("dead-too", 8),
	}, "here", gone)
	gomega.NewWithT(t).Expect(got).To(gomega.Equal([]leftover{{"dead", "run-dead", "7"}, {"dead-too", "run-dead-too", "8"}}))
}

func TestRoutes(t *testing.T) {
	p := place{ip: netip.MustParseAddr("172.18.0.2"), published: map[int]int{2379: 32768}}
	addrs := func(rs []route) (out []string) {
		for _, r := range rs {
			out = append(out, r.addr(p, 2379))
		}
		return out
	}
	loopback := netip.MustParseAddr("127.0.0.1")
	g := gomega.NewWithT(t)
	g.Expect(addrs(routes(loopback, "unix:///var/run/docker.sock", "", ""))).
		To(gomega.Equal([]string{"127.0.0.1:32768", "172.18.0.2:2379"}))
	g.Expect(addrs(routes(loopback, "tcp://dind:2375", "", "172.17.0.1"))).
		To(gomega.Equal([]string{"127.0.0.1:32768", "dind:32768", "172.17.0.1:32768", "172.18.0.2:2379"}))
	g.Expect(addrs(routes(netip.IPv4Unspecified(), "npipe:////./pipe/docker", "localhost", ""))).
		To(gomega.Equal([]string{"localhost:32768", "127.0.0.1:32768", "172.18.0.2:2379"}))
	g.Expect(parseGateway("Iface\tDestination\tGateway\n" +
		"eth0\t000011AC\t00000000\neth0\t00000000\t010011AC\n")).To(gomega.Equal("172.17.0.1"))
	g.Expect(parseGateway("Iface\tDestination\tGateway\neth0\t00000000\tzz\n")).To(gomega.BeEmpty())
}

func TestLastLines(t *testing.T) {
	g := gomega.NewWithT(t)
	g.Expect(lastLines("", 2)).To(gomega.Equal(""))
	g.Expect(lastLines("a\n", 2)).To(gomega.Equal("\ta"))
	g.Expect(lastLines("a\nb\nc\n", 2)).To(gomega.Equal("\tb\n\tc"))
}

func TestComplaint(t *testing.T) {
	g := gomega.NewWithT(t)
	g.Expect(complaint("go: downloading x v1\ngo: x@v9: unknown revision\n")).To(gomega.Equal("x@v9: unknown revision"))
	g.Expect(complaint("# x\na.go:1: bad\n")).To(gomega.Equal("# x; a.go:1: bad"))
	g.Expect(complaint(strings.Repeat("a\n", 6))).To(gomega.Equal("a" + strings.Repeat("\n\ta", 5)))
}

func TestHashAndTag(t *testing.T) {
	g := gomega.NewWithT(t)
	g.Expect(hashOf("ab", "c")).To(gomega.HaveLen(12))
	g.Expect(hashOf("ab", "c")).NotTo(gomega.Equal(hashOf("a", "bc")))
	g.Expect(tagOf("v3.6.12")).To(gomega.Equal("v3.6.12"))
	g.Expect(tagOf("v1.0.0+incompatible")).To(gomega.Equal("v1.0.0-incompatible"))
	g.Expect(tagOf("-odd/one")).To(gomega.Equal("odd-one"))
	amd, err := holderHash("amd64")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	arm, err := holderHash("arm64")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(amd).NotTo(gomega.Equal(arm))
}

func TestGoBinarySource(t *testing.T) {
	g := gomega.NewWithT(t)
	dir := t.TempDir()
	write := func(name, content string) {
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)).To(gomega.Succeed())
	}
	write("go.mod", "module x\n\ngo 1.26.0\n\nrequire example.com/db/v3 v3.6.12\n")
	write("main.go", "package main\n")
	write("main_test.go", "package main\n")
	source := func(version, main, in string) (source, error) {
		return goBinary{GoBinarySpec{Name: "db", Module: "example.com/db/v3", Version: version, Main: main, Dir: in}}.source(t.Context())
	}
	for _, version := range []string{"", "v3.6.12"} {
		src, err := source(version, "m", dir)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(src.dir).To(gomega.Equal(dir))
		g.Expect(src.version).To(gomega.Equal("v3.6.12"))
		g.Expect(src.mod).To(gomega.Equal("readonly"), "its checksums are checked")
		g.Expect(src.content).To(gomega.ContainElement("main.go"))
		g.Expect(src.content).NotTo(gomega.ContainElement("main_test.go"))
	}
	for _, in := range []string{"", dir, filepath.Join(dir, "nonesuch")} {
		src, err := source("v3.5.0", "m", in)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(src.dir).To(gomega.BeEmpty(), "to be generated")
		g.Expect(src.content).To(gomega.Equal([]string{"m"}))
	}
	_, err := source("v3.5.0", "", dir)
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("does not require example.com/db/v3 v3.5.0, and there is no Main to build it with")))
	_, err = source("", "m", filepath.Join(dir, "nonesuch"))
	g.Expect(err).To(gomega.MatchError(os.ErrNotExist))
	write("go.mod", "module x\n")
	_, err = source("", "m", dir)
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("does not require example.com/db/v3")))
}

func TestRootfs(t *testing.T) {
	g := gomega.NewWithT(t)
	file := filepath.Join(t.TempDir(), "db")
	g.Expect(os.WriteFile(file, []byte("ELF"), 0o600)).To(gomega.Succeed())
	f, err := os.Open(file)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	defer f.Close()
	var b bytes.Buffer
	g.Expect(writeRootfs(&b, f, "/usr/bin/db")).To(gomega.Succeed())
	var got []string
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		g.Expect(err).NotTo(gomega.HaveOccurred())
		got = append(got, h.FileInfo().Mode().String()+" "+h.Name)
	}
	g.Expect(got).To(gomega.Equal([]string{
		"drwxrwxrwx data/", "dtrwxrwxrwx tmp/", "drwxr-xr-x usr/", "drwxr-xr-x usr/bin/", "-rwxr-xr-x usr/bin/db"}))
}

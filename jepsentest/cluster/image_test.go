package cluster_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"github.com/onsi/gomega"

	"github.com/jepsentest/go/jepsentest/cluster"
)

// uuidServer is a program over a module that this module depends on anyway.
const uuidServer = `package main

import (
	"fmt"
	"net/http"

	"github.com/google/uuid"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, uuid.Nil) })
	panic(http.ListenAndServe(":8080", nil))
}
`

func TestGoBinaryOfAModule(t *testing.T) {
	needEngine(t)
	g := gomega.NewWithT(t)
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Setenv("GOCACHE", strings.TrimSpace(string(cache))) // stays what it is
	t.Setenv("XDG_CACHE_HOME", t.TempDir())               // where os.UserCacheDir looks, on Linux
	var log []string
	spec := testSpec(t, "n1")
	spec.Log = func(format string, args ...any) { log = append(log, fmt.Sprintf(format, args...)) }
	spec.Command = nil // the image's own
	spec.Image = cluster.GoBinary(cluster.GoBinarySpec{
		Name: "uuidserver", Module: "github.com/google/uuid", Version: versionOf(t, "github.com/google/uuid"), Main: uuidServer,
	})
	ref, err := cluster.Prepare(t.Context(), spec.Image, spec.Log)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(func() { removeImage(t, ref) })
	if runtime.GOOS == "linux" { // elsewhere the cache may have it from an earlier run
		g.Expect(log).To(gomega.ContainElement(gomega.MatchRegexp(`^image: building uuidserver v\S+ from source; about a minute the first time$`)))
	}

	log = nil
	c := start(t, spec)
	g.Expect(log).To(gomega.HaveExactElements(gomega.HavePrefix("image: using uuidserver v")), "the second time nothing is built")
	resp, err := http.Get("http://" + c.Node("n1").Addr())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(string(body)).To(gomega.Equal("00000000-0000-0000-0000-000000000000"))
	g.Expect(c.Node("n1").AddrOf(9999)).To(gomega.BeEmpty())
}

// versionOf is the version of a module that this module depends on.
func versionOf(t *testing.T, module string) string {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", module).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func removeImage(t *testing.T, ref string) {
	if _, err := engineClient(t).ImageRemove(context.Background(), ref, client.ImageRemoveOptions{Force: true}); err != nil {
		t.Error(err)
	}
}

func TestSweepRemovesImagesThatLostTheirName(t *testing.T) {
	needEngine(t)
	g := gomega.NewWithT(t)
	c := engineClient(t)
	const ref = "jepsentest/sweeptest:1"
	make1 := func(content string, labels ...string) (id string) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		g.Expect(w.WriteHeader(&tar.Header{Name: "x", Size: int64(len(content)), Mode: 0o644})).To(gomega.Succeed())
		_, err := w.Write([]byte(content))
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(w.Close()).To(gomega.Succeed())
		res, err := c.ImageImport(t.Context(), client.ImageImportSource{Source: &b, SourceName: "-"}, ref, client.ImageImportOptions{Changes: labels})
		g.Expect(err).NotTo(gomega.HaveOccurred())
		_, _ = io.Copy(io.Discard, res)
		res.Close()
		img, err := c.ImageInspect(t.Context(), ref)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		return img.ID
	}
	ours := make1("ours", "LABEL org.jepsentest.image=a")
	foreign := make1("foreign") // takes the name; has no label
	make1("last", "LABEL org.jepsentest.image=b")
	t.Cleanup(func() { removeImage(t, ref); removeImage(t, foreign) })

	g.Expect(cluster.Sweep(t.Context(), nil)).To(gomega.Succeed())
	_, err := c.ImageInspect(t.Context(), ours)
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("No such image")))
	_, err = c.ImageInspect(t.Context(), foreign)
	g.Expect(err).NotTo(gomega.HaveOccurred(), "not ours")
	_, err = c.ImageInspect(t.Context(), ref)
	g.Expect(err).NotTo(gomega.HaveOccurred(), "has its name")
}

func TestPrepareSaysWhatIsWrong(t *testing.T) {
	g := gomega.NewWithT(t)
	_, err := cluster.Prepare(t.Context(), cluster.GoBinary(cluster.GoBinarySpec{Name: "db", Dir: "nonesuch", Module: strings.Repeat("m", 3)}), nil)
	g.Expect(err).To(gomega.MatchError(gomega.HavePrefix("prepare image db built from Go modules: ")))
}

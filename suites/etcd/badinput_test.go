package etcd_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// What a user sees who asks for what cannot be had: one sentence, a failure, and
// nothing left running.
func TestBadInput(t *testing.T) {
	if os.Getenv("TEST_CHILD") != "" {
		t.Skip("this is the child")
	}
	for _, c := range []struct {
		name, env, flag, want string
	}{
		{"unknown version", "", "-etcd.version=v9.9.9", "there is no go.etcd.io/etcd/server/v3 at version v9.9.9 to be had"},
		{"no engine", "DOCKER_HOST=tcp://127.0.0.1:1", "-etcd.version=v3.6.12", "no container engine answers at DOCKER_HOST=tcp://127.0.0.1:1: start Docker"},
		{"unknown flag value", "", "-jepsen.concurrency=many", "a number such as 10, or a multiple of the nodes such as 2n, is needed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestEtcd$", "-ginkgo.no-color", "-jepsen.store="+t.TempDir(), c.flag)
			cmd.Env = append(os.Environ(), "TEST_CHILD=1", c.env)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Error("it passed")
			}
			if !strings.Contains(string(out), c.want) || strings.Contains(string(out), "*errors.") {
				t.Errorf("%q is missing, or there is more than a sentence:\n%s", c.want, out)
			}
			left, err := exec.Command("docker", "ps", "-aq", "--filter", "label=org.jepsentest.owner.pid="+strconv.Itoa(cmd.Process.Pid)).Output()
			if err == nil && len(left) > 0 {
				t.Errorf("left behind: %s", left)
			}
		})
	}
}

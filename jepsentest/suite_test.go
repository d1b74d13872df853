package jepsentest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/jepsentest"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The specs below are run in processes of their own by the tests at the end,
// which look at what users of go test would see.
const suiteDir = "TEST_SUITE_DIR"

func TestSuiteOfSpecs(t *testing.T) {
	if os.Getenv(suiteDir) == "" {
		t.Skip("run by other tests only")
	}
	jepsentest.RunSuite(t, "specs")
}

// markerDB leaves a file behind when it is taken down.
type markerDB struct{ dir string }

func (d markerDB) Setup(context.Context, *jepsentest.Env) error { return nil }
func (d markerDB) Teardown(context.Context, *jepsentest.Env) error {
	return os.WriteFile(filepath.Join(d.dir, "torn-down"), nil, 0o644)
}

// unhealable takes all the time there is to heal.
type unhealable struct{ fakeNemesis }

func (unhealable) Heal(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

var _ = Describe("specs", func() {
	spec := func(ctx SpecContext, want time.Duration) *jepsentest.Recording {
		dir := os.Getenv(suiteDir)
		return jepsentest.RunSpec(ctx, jepsentest.Test{
			Name: "spec", StoreDir: dir, Concurrency: 2, DB: markerDB{dir},
			Client: jepsentest.ClientFunc(func(ctx context.Context, op *histories.Op) (histories.Value, error) {
				time.Sleep(time.Millisecond)
				return histories.Int(1), nil
			}),
			Generator: dsl.Clients(dsl.TimeLimit(jepsentest.MainPhase(want, time.Second), dsl.Repeat(dsl.Once(dsl.Op{F: "read"})))),
		})
	}
	It("passes", Label("short"), func(ctx SpecContext) {
		spec(ctx, 100*time.Millisecond)
	})
	It("fails", Label("failing", "long"), func(ctx SpecContext) {
		rec := spec(ctx, 100*time.Millisecond)
		Expect(rec).To(jepsentest.SatisfyAllChecks(fakeChecker{name: "judge", verdict: folds.Invalid}))
	})
	It("is decorated", Label("decorated", "long"), jepsentest.Nodes(3), jepsentest.Seed(7), jepsentest.For(50*time.Millisecond),
		jepsentest.WithNemesis("kill"), func(ctx SpecContext) {
			d := jepsentest.MainPhase(0, time.Second)
			rec := jepsentest.RunSpec(ctx, jepsentest.Test{
				Name: "decorated", StoreDir: os.Getenv(suiteDir), Client: &fakeClient{},
				Generator: dsl.Clients(dsl.TimeLimit(d, dsl.Stagger(time.Millisecond, dsl.Repeat(dsl.Once(dsl.Op{F: "read"}))))),
			})
			Expect(d).To(Equal(50 * time.Millisecond))
			Expect(rec.Seed).To(Equal(uint64(7)))
		})
	It("cannot be healed", Label("unhealable", "long"), func(ctx SpecContext) {
		dir := os.Getenv(suiteDir)
		jepsentest.RunSpec(ctx, jepsentest.Test{
			Name: "unhealable", StoreDir: dir, DB: markerDB{dir}, Client: &fakeClient{}, Nemesis: unhealable{fakeNemesis{trail: &trail{}}},
			Generator: dsl.Clients(dsl.Stagger(time.Millisecond, dsl.Repeat(dsl.Once(dsl.Op{F: "read"})))),
		})
	})
	It("is broken", Label("broken", "long"), func(ctx SpecContext) {
		jepsentest.RunSpec(ctx, jepsentest.Test{
			Name: "broken", StoreDir: os.Getenv(suiteDir),
			Client: jepsentest.ClientFunc(func(context.Context, *histories.Op) (histories.Value, error) {
				return histories.Nil(), errors.New("no")
			}),
			Generator: dsl.Clients(dsl.Limit(3, dsl.Repeat(dsl.Once(dsl.Op{F: "read"})))),
		})
	})
	for i := range 2 {
		It(fmt.Sprintf("takes long %d", i), Label("lengthy", "long"), func(ctx SpecContext) { spec(ctx, time.Minute) })
	}
})

// suite runs the specs with flags of go test and returns what was printed.
func suite(t *testing.T, args ...string) (cmd *exec.Cmd, out *bytes.Buffer, dir string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes and takes seconds")
	}
	dir = t.TempDir()
	cmd = exec.Command(os.Args[0], append([]string{"-test.run=^TestSuiteOfSpecs$", "-ginkgo.no-color"}, args...)...)
	cmd.Env = append(os.Environ(), suiteDir+"="+dir)
	out = &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out, dir
}

func expectOutput(t *testing.T, out fmt.Stringer, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	if t.Failed() {
		t.Logf("\n%s", out)
	}
}

func TestSuiteLeavesLongSpecsOut(t *testing.T) {
	t.Parallel()
	cmd, out, dir := suite(t, "-test.v", "-test.timeout=10m")
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	expectOutput(t, out, "1 specs within go test's time limit of 10m0s", "Ran 1 of 7 Specs", "1 Passed", "stored in "+dir)
}

func TestSuiteShowsWhyASpecFailed(t *testing.T) {
	t.Parallel()
	cmd, out, dir := suite(t, "-ginkgo.label-filter=failing", "-jepsen.seed=77")
	if err := cmd.Run(); err == nil {
		t.Error("it passed")
	}
	expectOutput(t, out, "judge: invalid: because", "stored: "+dir, "suite_test.go",
		`again:  go test ./jepsentest -count=1 -jepsen.seed=77 -ginkgo.focus='specs fails' -ginkgo.label-filter=long -timeout 3h`)
}

// Specs end before go test would kill the process; those that cannot are skipped.
func TestSuiteFitsIntoTheTimeLimit(t *testing.T) {
	t.Parallel()
	cmd, out, dir := suite(t, "-ginkgo.label-filter=lengthy", "-test.timeout=20s", "-test.v")
	start := time.Now()
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	if d := time.Since(start); d > 19*time.Second {
		t.Errorf("it took %v of 20 s", d)
	}
	expectOutput(t, out, "2 specs within go test's time limit of 20s", "runs for 10s instead of 1m0s", "-timeout 3h gives each spec its full length",
		"1 Passed", "takes long 1: skipped: only", "1 specs were skipped for lack of time; give it more with -timeout")
	if _, err := os.Stat(filepath.Join(dir, "torn-down")); err != nil {
		t.Error(err)
	}
}

func TestDecoratorsAreLabelsAndTakeEffect(t *testing.T) {
	t.Parallel()
	cmd, out, _ := suite(t, "-ginkgo.label-filter=nemesis: containsAny {kill} && nodes: containsAny {3}", "-test.v")
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	expectOutput(t, out, "Ran 1 of 7 Specs", "[decorated, long, nodes:3, seed:7, for:50ms, nemesis:kill]", "seed 7")
}

func TestSuiteShowsErrorsOfRunsInASentence(t *testing.T) {
	t.Parallel()
	cmd, out, _ := suite(t, "-ginkgo.label-filter=broken")
	if err := cmd.Run(); err == nil {
		t.Error("it passed")
	}
	expectOutput(t, out, "[FAILED] the run proves nothing: no operation of a client succeeded", "stored: ", "again:  go test")
	if strings.Contains(out.String(), "AssumptionError") {
		t.Errorf("the insides of the error are shown:\n%s", out)
	}
}

// A suite in which nothing could be begun has not tested anything.
func TestSuiteWithoutTimeForAnySpecFails(t *testing.T) {
	t.Parallel()
	cmd, out, _ := suite(t, "-ginkgo.label-filter=lengthy", "-test.timeout=9s")
	if err := cmd.Run(); err == nil {
		t.Error("it passed")
	}
	expectOutput(t, out, "2 specs were skipped for lack of time", "so nothing was tested")
}

// Healing that hangs does not keep the run from being saved and taken down
// before go test would kill the process.
func TestCleaningUpFitsIntoTheTimeLimit(t *testing.T) {
	t.Parallel()
	cmd, out, dir := suite(t, "-ginkgo.label-filter=unhealable", "-test.timeout=12s")
	start := time.Now()
	if err := cmd.Run(); err == nil {
		t.Error("it passed")
	}
	expectOutput(t, out, "heal the faults of nemesis", "the run was interrupted")
	if strings.Contains(out.String(), "test timed out") || time.Since(start) > 12*time.Second {
		t.Errorf("it was killed:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(dir, "torn-down")); err != nil {
		t.Error(err)
	}
}

// Whoever reads the output may go away; the database must be taken down all the same.
func TestClosedOutputDoesNotEndTheProcess(t *testing.T) {
	t.Parallel()
	cmd, _, dir := suite(t, "-ginkgo.label-filter=lengthy", "-test.v", "-jepsen.time-limit=1s")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	for range 1000 { // until the test is under way
		if found, _ := filepath.Glob(filepath.Join(dir, "spec", "2*")); len(found) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.Close()
	_ = cmd.Wait() // it may pass or fail, but not die before it has cleaned up
	if _, err := os.Stat(filepath.Join(dir, "torn-down")); err != nil {
		t.Error(err)
	}
}

func TestBadFlagsAndVariablesAreRefused(t *testing.T) {
	t.Parallel()
	cmd, out, _ := suite(t, "-jepsen.time-limit=soon")
	if err := cmd.Run(); err == nil {
		t.Error("a bad flag passed")
	}
	expectOutput(t, out, `invalid value "soon" for flag -jepsen.time-limit`)
	cmd, out, _ = suite(t)
	cmd.Env = append(cmd.Env, "JEPSEN_CONCURENCY=3")
	if err := cmd.Run(); err == nil {
		t.Error("an unknown variable passed")
	}
	expectOutput(t, out, "unknown variable JEPSEN_CONCURENCY in the environment; known are")
}

func TestInterruptedSuiteCleansUpAndSaves(t *testing.T) {
	t.Parallel()
	cmd, out, dir := suite(t, "-ginkgo.label-filter=lengthy", "-test.v")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	histories := func() []string {
		found, _ := filepath.Glob(filepath.Join(dir, "spec", "2*", "history.jt"))
		return found
	}
	for range 1000 {
		if len(histories()) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := cmd.Wait(); err == nil {
		t.Error("an interrupted suite passed")
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("it took %v to stop", d)
	}
	expectOutput(t, out, "the run was interrupted", "stored in "+dir)
	if _, err := os.Stat(filepath.Join(dir, "torn-down")); err != nil {
		t.Error(err)
	}
	rec, err := jepsentest.OpenRecording(filepath.Dir(histories()[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	if n, err := rec.History.Len(); n == 0 || err != nil {
		t.Errorf("%d operations, %v", n, err)
	}
}

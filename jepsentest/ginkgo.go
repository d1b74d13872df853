package jepsentest

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
)

// suite is what the specs of this process share.
var suite struct {
	sync.Mutex
	specsLeft int // specs that have not begun yet, and will
	begun     int // main phases that began
	tooLate   int // specs that were skipped for lack of time
}

// RunSuite runs the Ginkgo specs of a package that tests databases, in place of
// ginkgo.RunSpecs:
//
//	func TestMyDB(t *testing.T) { jepsentest.RunSuite(t, "mydb") }
//
// If no label filter is given, specs labelled "long" are left out. Specs are
// ended before the time limit of go test would kill the process, early enough
// to heal, save and clean up. A bad JEPSEN_* variable fails the suite at once,
// and so does, at the end, a time limit in which no spec could be begun.
//
// A closed output (of a go command that was killed, or of a pipe to head) does
// not end the process, which would leave the nodes running.
func RunSuite(t *testing.T, description string) {
	t.Helper()
	gomega.RegisterFailHandler(ginkgo.Fail)
	if _, err := Flags(); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGPIPE)
	sc, rc := ginkgo.GinkgoConfiguration()
	if sc.LabelFilter == "" {
		sc.LabelFilter = "!long"
	}
	limit := "without a time limit (-timeout 0)"
	// Ginkgo has a limit of its own, of an hour, that would undercut -timeout 3h.
	sc.Timeout = 1000 * time.Hour
	if end, ok := testDeadline(); ok {
		safe, _ := safeEnd()
		sc.Timeout = time.Until(safe.Add(end.Sub(safe) / 3))
		limit = fmt.Sprintf("within go test's time limit of %v", end.Sub(processStart).Round(time.Second))
	}
	ginkgo.ReportBeforeSuite(func(r ginkgo.Report) {
		suite.Lock()
		suite.specsLeft = r.PreRunStats.SpecsThatWillRun
		suite.Unlock()
		announce("%s: %d specs %s", description, r.PreRunStats.SpecsThatWillRun, limit)
	})
	ginkgo.ReportBeforeEach(func(r ginkgo.SpecReport) {
		if !r.State.Is(types.SpecStateSkipped | types.SpecStatePending) {
			suite.Lock()
			suite.specsLeft--
			suite.Unlock()
		}
	})
	ginkgo.RunSpecs(t, description, sc, rc)
	suite.Lock()
	defer suite.Unlock()
	if suite.tooLate > 0 {
		announce("%s: %d specs were skipped for lack of time; give it more with -timeout, such as -timeout 3h", description, suite.tooLate)
		if suite.begun == 0 {
			t.Error("the time limit of go test is too short for any of the specs, so nothing was tested")
		}
	}
}

// announce tells whoever watches. go test shows it with -v, and when a spec fails.
func announce(format string, args ...any) {
	fmt.Fprintf(os.Stdout, "jepsentest: "+format+"\n", args...)
}

// MainPhase returns for how long the current spec should run its main phase.
// want is what it would like (0: what the decorator [For] says), which
// -jepsen.time-limit replaces; overhead is the
// time it needs besides, to set up, heal, check and clean up. If the time limit
// of go test leaves too little for all specs, they share what there is; if it
// leaves too little for this one, the spec is skipped, with the reason.
func MainPhase(want, overhead time.Duration) time.Duration {
	ginkgo.GinkgoHelper()
	opts, err := Flags()
	if err != nil {
		ginkgo.Fail(err.Error())
	}
	if v, ok := specLabel("for"); ok && want == 0 {
		if d, err := time.ParseDuration(v); err == nil {
			want = d
		}
	}
	if opts.TimeLimit > 0 {
		want = opts.TimeLimit
	}
	suite.Lock()
	left := suite.specsLeft
	suite.Unlock()
	sc, _ := ginkgo.GinkgoConfiguration()
	b := budget{specsLeft: (left + sc.ParallelTotal - 1) / max(sc.ParallelTotal, 1)}
	b.specsLeft++ // this one
	if end, ok := safeEnd(); ok {
		b.end = end
	}
	d, err := b.fit(time.Now(), want, overhead)
	if err != nil {
		suite.Lock()
		suite.tooLate++
		suite.Unlock()
		announce("%s: skipped: %v", ginkgo.CurrentSpecReport().LeafNodeText, err)
		ginkgo.Skip(err.Error())
	}
	suite.Lock()
	suite.begun++
	suite.Unlock()
	if d < want {
		announce("%s: runs for %v instead of %v, to fit into go test's time limit; -timeout 3h gives each spec its full length",
			ginkgo.CurrentSpecReport().LeafNodeText, d.Round(time.Second), want)
	}
	return d
}

// RunSpec runs a test as part of a Ginkgo spec: messages go to GinkgoWriter,
// progress reports (SIGUSR1, --poll-progress-after) say how far it is, and the
// report of the spec says where the run is stored. It fails the spec if the run
// has an error, and closes the recording at the end of the spec.
func RunSpec(ctx ginkgo.SpecContext, t Test) *Recording {
	ginkgo.GinkgoHelper()
	decorate(&t)
	if t.Log == nil {
		t.Log = func(message string) { ginkgo.GinkgoWriter.Println(message) }
	}
	if t.Again == nil {
		t.Again = againCommand
	}
	rec, err := Run(ctx, t)
	if rec != nil {
		ginkgo.DeferCleanup(rec.Close)
		ginkgo.AddReportEntry("run", ginkgo.ReportEntryVisibilityAlways, summary{rec})
		announce("%s: %v in %.1f s, seed %d, stored in %s", rec.Name, rec.Counts, rec.Elapsed.Seconds(), rec.Seed, rec.Dir)
	}
	if err != nil {
		// The error's own text says it all; Gomega would show its insides, too.
		ginkgo.Fail(strings.Join(append([]string{err.Error()}, footerOf(rec)...), "\n"))
	}
	return rec
}

// summary is what reports say of a run. It is rendered when the report is made,
// and so has the verdict.
type summary struct{ rec *Recording }

func (s summary) String() string {
	return fmt.Sprintf("%s: %s\n%v in %.1f s, seed %d\nstored in %s", s.rec.Name, s.verdict(), s.rec.Counts,
		s.rec.Elapsed.Seconds(), s.rec.Seed, s.rec.Dir)
}

func (s summary) verdict() string {
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	if len(s.rec.results) == 0 {
		return "not checked"
	}
	return s.rec.worst().String()
}

// MarshalJSON keeps JUnit and JSON reports small.
func (s summary) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"verdict":%q,"stored":%q,"seed":%d,"ok":%d,"fail":%d,"info":%d}`,
		s.verdict(), s.rec.Dir, s.rec.Seed, s.rec.Counts.OK, s.rec.Counts.Failed, s.rec.Counts.Unknown), nil
}

// againCommand returns the command that runs the current spec with a seed, and
// with the flags of this run.
func againCommand(seed uint64) string {
	spec := ginkgo.CurrentSpecReport()
	cmd := fmt.Sprintf("go test %s -count=1 -jepsen.seed=%d -ginkgo.focus=%s", packagePath(), seed, shellQuote(regexp.QuoteMeta(spec.FullText())))
	flag.Visit(func(f *flag.Flag) {
		family, _, _ := strings.Cut(f.Name, ".")
		if family != "test" && family != "ginkgo" && family != "rapid" && f.Name != "jepsen.seed" {
			cmd += fmt.Sprintf(" -%s=%s", f.Name, shellQuote(f.Value.String()))
		}
	})
	for _, l := range spec.Labels() {
		if l == "long" {
			cmd += " -ginkgo.label-filter=long -timeout 3h"
		}
	}
	return cmd
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+$`)

// shellQuote writes a word so that a shell reads it as it is.
func shellQuote(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// packagePath returns the path of the package under test, as go test takes it
// at the root of its module. Tests run in the directory of their package.
func packagePath() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	for root := dir; ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			rel, err := filepath.Rel(root, dir)
			if err != nil {
				return "."
			}
			return "./" + strings.TrimPrefix(filepath.ToSlash(rel), "./")
		}
		if root == filepath.Dir(root) {
			return "."
		}
	}
}

package jepsentest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/folds/stats"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/jepsentest"
	"github.com/jepsentest/go/jepsentest/sim"
	"github.com/jepsentest/go/jepsentest/workload"
	"github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
)

// fakeChecker says what it is told to.
type fakeChecker struct {
	name    string
	verdict folds.Verdict
	err     error
	panics  bool
}

func (c fakeChecker) Name() string { return c.name }
func (c fakeChecker) Check(context.Context, histories.History) (*folds.Report, error) {
	if c.panics {
		panic("checker is broken")
	}
	return &folds.Report{Check: c.name, Verdict: c.verdict, Summary: "because"}, c.err
}

func TestVerdictsOfMatchers(t *testing.T) {
	valid := fakeChecker{name: "v", verdict: folds.Valid}
	invalid := fakeChecker{name: "i", verdict: folds.Invalid}
	unknown := fakeChecker{name: "u", verdict: folds.Unknown}
	fails := fakeChecker{name: "f", err: errors.New("cannot read")}
	panics := fakeChecker{name: "p", panics: true}
	h := histories.Must(histories.New())
	for _, c := range []struct {
		name     string
		checkers []folds.Checker
		match    bool
		err      string
	}{
		{"none", nil, true, ""},
		{"valid", []folds.Checker{valid, valid}, true, ""},
		{"invalid", []folds.Checker{valid, invalid}, false, ""},
		{"unknown is neither", []folds.Checker{valid, unknown}, false, "u: the verdict is unknown: because"},
		{"invalid outweighs unknown", []folds.Checker{unknown, invalid, fails}, false, ""},
		{"a checker that fails", []folds.Checker{fails, valid}, false, "f: cannot read"},
		{"a checker that panics", []folds.Checker{valid, panics}, false, "p: checker panicked: checker is broken"},
		{"a panic does not hide an invalid verdict", []folds.Checker{panics, invalid}, false, ""},
	} {
		m := jepsentest.SatisfyAllChecks(c.checkers...)
		got, err := m.Match(h)
		if got != c.match || (err != nil) != (c.err != "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: got %v, %v", c.name, got, err)
		}
	}
	if _, err := jepsentest.SatisfyAllChecks(valid).Match(3); err == nil || !strings.Contains(err.Error(), "not a int") {
		t.Errorf("got %v", err)
	}
	if _, err := jepsentest.HaveNoAnomalies().Match((*jepsentest.Recording)(nil)); err == nil {
		t.Error("no error for a nil recording")
	}
}

// A failure fits on a screen, names the anomaly, and says how to go on.
func TestFailureMessage(t *testing.T) {
	w := workload.Append(workload.AppendOptions{})
	db := sim.NewLists(sim.ListOptions{Bug: sim.LostUpdate, Seed: 3})
	_, rec, err := run(t, jepsentest.Test{
		Name: "message", Concurrency: 10, Seed: 3, Client: jepsentest.ClientFunc(db.Invoke),
		Generator: dsl.Clients(dsl.TimeLimit(500*time.Millisecond, w.Generator)),
		Again:     func(seed uint64) string { return fmt.Sprintf("go test ./x -jepsen.seed=%d", seed) },
	})
	if err != nil {
		t.Fatal(err)
	}
	m := jepsentest.HaveNoAnomalies()
	if ok, err := m.Match(rec); ok || err != nil {
		t.Fatal(ok, err)
	}
	msg := m.FailureMessage(rec)
	for _, want := range []string{"list-append: invalid", "lost-update: both of these transactions", "stored: " + rec.Dir, "again:  go test ./x -jepsen.seed=3", "seed 3"} {
		if !strings.Contains(msg, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if n := strings.Count(msg, "\n") + 1; n > 25 {
		t.Errorf("%d lines", n)
	}
	t.Log("\n" + msg)

	// The verdict is stored with the run.
	old, err := jepsentest.OpenRecording(rec.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	v, err := old.Verdict()
	if err != nil || v != folds.Invalid {
		t.Errorf("stored verdict: %v, %v", v, err)
	}
}

func TestFoldTrace(t *testing.T) {
	t.Setenv("JEPSEN_FOLD_TRACE", "true")
	_, rec, err := run(t, jepsentest.Test{Concurrency: 1, Client: &fakeClient{}, Generator: reads(3)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rec.Check(t.Context(), stats.Checker()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(rec.Dir, "fold-trace.json"))
	if err != nil {
		t.Fatal(err)
	}
	var events []struct{ Name string }
	if err := json.Unmarshal(b, &events); err != nil || len(events) == 0 {
		t.Errorf("%v in %s", err, b)
	}
}

func countOf(f string) folds.Fold[int64, int64] {
	return folds.Fold[int64, int64]{
		Name: "count " + f, Columns: histories.ColF | histories.ColType,
		New: func() int64 { return 0 },
		Step: func(n int64, op histories.Op) (int64, error) {
			if op.F == f && op.Type == histories.OK {
				n++
			}
			return n, nil
		},
		Merge:  func(a, b int64) (int64, error) { return a + b, nil },
		Result: func(n int64) (int64, error) { return n, nil },
	}
}

func haveReads(least int64) types.GomegaMatcher {
	return jepsentest.FoldMatcher(fmt.Sprintf("have %d reads", least), countOf("read"),
		func(n int64) (bool, string) { return n >= least, fmt.Sprintf("it has %d", n) })
}

func TestFoldMatcher(t *testing.T) {
	g := gomega.NewWithT(t)
	h := histories.Must(histories.New(
		histories.Op{Type: histories.Invoke, F: "read"}, histories.Op{Type: histories.OK, F: "read"}))
	g.Expect(h).To(haveReads(1))
	g.Expect(h).NotTo(haveReads(2))
	m := haveReads(2)
	ok, err := m.Match(h)
	g.Expect(ok, err).To(gomega.BeFalse())
	g.Expect(m.FailureMessage(h)).To(gomega.Equal("Expected the history to have 2 reads:\nit has 1"))
}

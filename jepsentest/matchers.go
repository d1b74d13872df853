package jepsentest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/folds/elle/listappend"
	"github.com/jepsentest/go/histories"
	"github.com/onsi/gomega/types"
)

// maxLines is the length of a failure message: one screen.
const maxLines = 25

// SatisfyAllChecks succeeds if every checker finds a recording (or a history)
// valid. The checkers run at the same time and share their passes over the
// history, and one that fails does not keep the others from their results. A
// checker that cannot decide is an error, so that neither To nor NotTo passes.
//
//	Expect(rec).To(jepsentest.SatisfyAllChecks(w.Checkers...))
func SatisfyAllChecks(checkers ...folds.Checker) types.GomegaMatcher {
	return &checkMatcher{checkers: checkers}
}

// HaveNoAnomalies succeeds if a history of list-append transactions shows none
// of the given types of anomalies; none given means all that package
// listappend knows. A history that cannot be judged is an error.
//
//	Expect(rec).To(jepsentest.HaveNoAnomalies("G1a", "G1b", "internal"))
func HaveNoAnomalies(anomalies ...string) types.GomegaMatcher {
	if err := listappend.Known(anomalies...); err != nil {
		return &checkMatcher{misuse: err}
	}
	return &checkMatcher{checkers: []folds.Checker{listappend.Checker(anomalies...)}}
}

// HaveAnomaly succeeds if a history of list-append transactions shows the given
// type of anomaly. It is for databases that are known to be broken, and for
// guarantees that a database does not make.
//
//	Expect(rec).To(jepsentest.HaveAnomaly("lost-update"))
func HaveAnomaly(anomaly string) types.GomegaMatcher {
	if err := listappend.Known(anomaly); err != nil {
		return &checkMatcher{misuse: err}
	}
	return &checkMatcher{checkers: []folds.Checker{listappend.Checker(anomaly)}, wanted: anomaly}
}

type checkMatcher struct {
	checkers []folds.Checker
	wanted   string // an anomaly that must be there; empty: the verdict must be valid
	misuse   error  // what is wrong with the matcher itself
	reports  []*folds.Report
}

func (m *checkMatcher) Match(actual any) (bool, error) {
	if m.misuse != nil {
		return false, m.misuse
	}
	h, rec, err := historyOf(actual)
	if err != nil {
		return false, err
	}
	if rec != nil {
		m.reports, err = rec.Check(context.Background(), m.checkers...)
	} else {
		m.reports, err = runCheckers(context.Background(), h, m.checkers)
	}
	if err != nil {
		return false, err
	}
	if m.wanted != "" {
		return slices.ContainsFunc(m.reports, func(r *folds.Report) bool { return r.Counts[m.wanted] > 0 }), nil
	}
	for _, r := range m.reports {
		if r.Verdict == folds.Invalid {
			return false, nil
		}
	}
	return true, nil
}

// Check runs checkers over the recording, all at once, and stores what they say
// with it. It is what the matchers do; programs without Gomega call it. The
// error says that one of them could not work, or could not decide, and none
// found the history invalid; the reports of the others come with it.
//
// With -jepsen.fold-trace it also writes fold-trace.json to the directory of the run.
func (r *Recording) Check(ctx context.Context, checkers ...folds.Checker) ([]*folds.Report, error) {
	stop, err := r.trace()
	if err != nil {
		return nil, err
	}
	reports, err := runCheckers(ctx, r.History, checkers)
	if traceErr := stop(); err == nil {
		err = traceErr
	}
	if len(reports) > 0 {
		if saveErr := r.save(reports...); err == nil {
			err = saveErr
		}
	}
	return reports, err
}

// trace begins to trace the folds over the history, if that was asked for, and
// returns what ends it.
func (r *Recording) trace() (stop func() error, err error) {
	opts, err := Flags()
	if err != nil || !opts.FoldTrace {
		return func() error { return nil }, err
	}
	f, err := os.Create(filepath.Join(r.Dir, "fold-trace.json"))
	if err != nil {
		return nil, fmt.Errorf("trace folds: %w", err)
	}
	end := folds.For(r.History).Trace(f)
	return func() error { return errors.Join(end(), f.Close()) }, nil
}

// runCheckers runs all checkers at once, and returns a report of each: Unknown,
// with the error, of one that could not work. The error is that of the first one
// that could not work or could not decide. An invalid verdict outweighs an
// unknown one: then there is no error.
func runCheckers(ctx context.Context, h histories.History, checkers []folds.Checker) ([]*folds.Report, error) {
	reports := make([]*folds.Report, len(checkers))
	errs := make([]error, len(checkers))
	var wg sync.WaitGroup
	for i, c := range checkers {
		wg.Go(func() { reports[i], errs[i] = runChecker(ctx, h, c) })
	}
	wg.Wait()
	var undecided error
	for i, r := range reports {
		if r.Verdict == folds.Invalid {
			return reports, nil
		}
		if r.Verdict == folds.Unknown && undecided == nil {
			if undecided = errs[i]; undecided == nil {
				undecided = fmt.Errorf("%s: the verdict is unknown: %s", r.Check, r.Summary)
			}
		}
	}
	return reports, undecided
}

// runChecker runs one checker, which may panic, and always returns a report.
func runChecker(ctx context.Context, h histories.History, c folds.Checker) (rep *folds.Report, err error) {
	name := "checker"
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: checker panicked: %v", name, p)
		}
		if err == nil && rep == nil {
			err = fmt.Errorf("%s: checker returned no report", name)
		}
		if err != nil {
			rep = &folds.Report{Check: name, Verdict: folds.Unknown, Summary: err.Error()}
		}
	}()
	name = c.Name()
	if rep, err = c.Check(ctx, h); err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return rep, err
}

// historyOf takes what a matcher can be applied to.
func historyOf(actual any) (histories.History, *Recording, error) {
	switch a := actual.(type) {
	case *Recording:
		if a == nil {
			return nil, nil, fmt.Errorf("there is no recording: the run failed before it had begun")
		}
		return a.History, a, nil
	case histories.History:
		return a, nil, nil
	}
	return nil, nil, fmt.Errorf("a *jepsentest.Recording or a histories.History is needed, not a %T", actual)
}

func (m *checkMatcher) FailureMessage(actual any) string {
	if m.wanted != "" {
		return m.message(actual, fmt.Sprintf("Expected to find the anomaly %s, but it is not there", m.wanted))
	}
	return m.message(actual, "The history breaks what was expected of it")
}

func (m *checkMatcher) NegatedFailureMessage(actual any) string {
	if m.wanted != "" {
		return m.message(actual, fmt.Sprintf("Expected not to find the anomaly %s", m.wanted))
	}
	return m.message(actual, "Expected the checks to find something, but they found nothing")
}

func (m *checkMatcher) message(actual any, headline string) string {
	rec, _ := actual.(*Recording)
	return headline + ":\n\n" + Explain(rec, m.reports...)
}

// Explain says on one screen what checkers found: the verdicts, one example of
// each type of anomaly as far as there is room, and, if rec is not nil, where
// the run is stored and how to run it again.
func Explain(rec *Recording, reports ...*folds.Report) string {
	var lines []string
	for _, r := range reports {
		lines = append(lines, fmt.Sprintf("%s: %v: %s", r.Check, r.Verdict, r.Summary))
	}
	footer := footerOf(rec)
	shown := map[string]bool{}
	for _, r := range reports {
		for _, a := range r.Anomalies {
			text := strings.Split(a.Type+": "+strings.TrimSpace(a.Text), "\n")
			if shown[a.Type] || len(lines)+1+len(text)+len(footer) > maxLines-2 { // less the headline
				continue
			}
			shown[a.Type] = true
			lines = append(lines, "")
			for _, l := range text {
				lines = append(lines, shorten(l, 400))
			}
		}
	}
	return strings.Join(append(lines, footer...), "\n")
}

// shorten cuts the middle out of a line that is longer than n bytes. What makes
// the difference mostly stands at the end, so more of that is left.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n/3], "") + " … " + strings.ToValidUTF8(s[len(s)-2*n/3:], "")
}

// footerOf tells where a recording is stored and how to run it again.
func footerOf(rec *Recording) []string {
	if rec == nil {
		return nil
	}
	return []string{
		"",
		fmt.Sprintf("run:    %v, seed %d", rec.Counts, rec.Seed),
		"stored: " + rec.Dir,
		"again:  " + rec.Again,
	}
}

// FoldMatcher makes a matcher of a fold: it succeeds if ok returns true for the
// fold's result. This is the way to write one's own matcher:
//
//	func HaveReads(least int64) types.GomegaMatcher {
//		return jepsentest.FoldMatcher("have enough reads", countReads,
//			func(n int64) (bool, string) { return n >= least, fmt.Sprintf("%d reads, want %d", n, least) })
//	}
//
// explain, the second result of ok, is shown when the assertion fails. Applied to
// a recording, the matcher stores its result under its name, as checkers do:
// valid if ok returned true, invalid otherwise.
func FoldMatcher[A, R any](name string, fold folds.Fold[A, R], ok func(R) (success bool, explain string)) types.GomegaMatcher {
	return &foldMatcher[A, R]{name: name, fold: fold, ok: ok}
}

type foldMatcher[A, R any] struct {
	name    string
	fold    folds.Fold[A, R]
	ok      func(R) (bool, string)
	explain string
}

func (m *foldMatcher[A, R]) Match(actual any) (bool, error) {
	h, rec, err := historyOf(actual)
	if err != nil {
		return false, err
	}
	report := &folds.Report{Check: m.name}
	success := false
	if r, foldErr := folds.Run(context.Background(), h, m.fold); foldErr != nil {
		err, report.Summary = foldErr, foldErr.Error()
	} else if success, m.explain = m.ok(r); success {
		report.Verdict, report.Summary = folds.Valid, m.explain
	} else {
		report.Verdict, report.Summary = folds.Invalid, m.explain
	}
	if rec != nil {
		err = errors.Join(err, rec.save(report))
	}
	return success, err
}

func (m *foldMatcher[A, R]) FailureMessage(actual any) string { return m.message(actual, "to ") }

func (m *foldMatcher[A, R]) NegatedFailureMessage(actual any) string {
	return m.message(actual, "not to ")
}

func (m *foldMatcher[A, R]) message(actual any, to string) string {
	rec, _ := actual.(*Recording)
	lines := []string{"Expected the history " + to + m.name + ":", m.explain}
	return strings.Join(append(lines, footerOf(rec)...), "\n")
}

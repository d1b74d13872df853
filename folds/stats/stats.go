// Package stats counts what became of the operations of a test: how many of each
// kind succeeded, failed and crashed.
package stats

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/histories"
)

// Counts are the completions of the operations of clients, by type.
type Counts [histories.NumTypes]int64

// Total returns the number of completions.
func (c Counts) Total() int64 {
	return c[histories.OK] + c[histories.Fail] + c[histories.Info]
}

func (c *Counts) add(d Counts) {
	for i := range c {
		c[i] += d[i]
	}
}

// Result holds the counts of a history.
type Result struct {
	Counts Counts            // of all operations
	ByF    map[string]Counts // of the operations with each f
}

// Fold counts invocations and completions of clients by type and by f.
func Fold() folds.Fold[*Result, *Result] {
	return folds.Fold[*Result, *Result]{
		Name:        "stats",
		Columns:     histories.ColProcess | histories.ColType | histories.ColF,
		New:         func() *Result { return &Result{ByF: map[string]Counts{}} },
		Chunk:       count,
		Merge:       merge,
		Associative: true,
		Result:      func(r *Result) (*Result, error) { return r, nil },
	}
}

func count(r *Result, c *histories.Chunk) (*Result, error) {
	byCode := make([]Counts, len(c.Fs))
	for i, typ := range c.Type {
		if c.Process[i].IsClient() {
			byCode[c.F[i]][typ&3]++
		}
	}
	for code, n := range byCode {
		if n != (Counts{}) {
			r.add(c.Fs[code], n)
		}
	}
	return r, nil
}

// add counts operations with this f. Its name is copied when it is new, so that
// it does not keep a whole chunk in memory.
func (r *Result) add(f string, n Counts) {
	r.Counts.add(n)
	sum, known := r.ByF[f]
	if !known {
		f = strings.Clone(f)
	}
	sum.add(n)
	r.ByF[f] = sum
}

func merge(a, b *Result) (*Result, error) {
	for f, n := range b.ByF {
		a.add(f, n)
	}
	return a, nil
}

// Checker returns a checker that is content if at least one operation of every
// f succeeded. If one never did, the verdict is Unknown: nothing is known about
// what such operations would have shown.
func Checker() folds.Checker { return checker{} }

type checker struct{}

func (checker) Name() string { return "stats" }

func (checker) Check(ctx context.Context, h histories.History) (*folds.Report, error) {
	r, err := folds.Run(ctx, h, Fold())
	if err != nil {
		return nil, err
	}
	return r.Report(), nil
}

// Report judges the counts.
func (r *Result) Report() *folds.Report {
	rep := &folds.Report{Check: "stats", Verdict: folds.Valid}
	fs := make([]string, 0, len(r.ByF))
	for f := range r.ByF {
		fs = append(fs, f)
	}
	slices.Sort(fs)
	var never []string
	var data []histories.Entry
	for _, f := range fs {
		n := r.ByF[f]
		if n[histories.OK] == 0 && n.Total() > 0 {
			never = append(never, f)
		}
		data = append(data, histories.Entry{Key: histories.String(f), Value: n.value()})
	}
	rep.Data = histories.MapOf(
		histories.Entry{Key: histories.Keyword("all"), Value: r.Counts.value()},
		histories.Entry{Key: histories.Keyword("by-f"), Value: histories.MapOf(data...)})
	rep.Summary = fmt.Sprintf("%d ok, %d fail, %d info", r.Counts[histories.OK], r.Counts[histories.Fail], r.Counts[histories.Info])
	if len(never) > 0 {
		rep.Verdict = folds.Unknown
		rep.Summary += "; no operation succeeded of: " + strings.Join(never, ", ")
	}
	return rep
}

func (c Counts) value() histories.Value {
	var es []histories.Entry
	for t, n := range c {
		es = append(es, histories.Entry{Key: histories.Keyword(histories.Type(t).String()), Value: histories.Int(n)})
	}
	return histories.MapOf(es...)
}

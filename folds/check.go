package folds

import (
	"context"
	"strings"

	"github.com/jepsentest/go/histories"
)

// Verdict is what a checker found out. The zero Verdict is Unknown: what nobody
// has decided is not valid.
type Verdict uint8

// The verdicts.
const (
	// Unknown: the checker could not find out.
	Unknown Verdict = iota
	// Valid: the guarantee was not seen to be broken.
	Valid
	// Invalid: the guarantee was broken.
	Invalid
)

func (v Verdict) String() string {
	switch v {
	case Valid:
		return "valid"
	case Invalid:
		return "invalid"
	}
	return "unknown"
}

// ParseVerdict is the inverse of [Verdict.String].
func ParseVerdict(s string) (Verdict, bool) {
	for _, v := range []Verdict{Unknown, Valid, Invalid} {
		if v.String() == s {
			return v, true
		}
	}
	return Unknown, false
}

// Worst merges verdicts: an invalid one outweighs unknown ones, which outweigh
// valid ones. It is Valid if there is none.
func Worst(vs ...Verdict) Verdict {
	worst := Valid
	for _, v := range vs {
		if v == Invalid || worst == Valid {
			worst = v
		}
	}
	return worst
}

// Anomaly is one thing that a checker found wrong.
type Anomaly struct {
	// Type is its name in the literature: "G1a", "lost-update".
	Type string
	// Text explains it in words, in a few lines.
	Text string
	// Ops are the indices of the operations that are involved.
	Ops []int64
}

// Report is what a checker says about a history.
type Report struct {
	// Check is the name of the checker.
	Check string
	// Verdict is the answer.
	Verdict Verdict
	// Summary is the answer in one sentence.
	Summary string
	// Counts says how many anomalies there are of each type.
	Counts map[string]int
	// Anomalies are examples of them, the clearest first: not necessarily all.
	Anomalies []Anomaly
	// Data holds the figures of the checker.
	Data histories.Value
}

// First returns the first anomaly of the given type, and false if none was reported.
func (r *Report) First(typ string) (Anomaly, bool) {
	for _, a := range r.Anomalies {
		if a.Type == typ {
			return a, true
		}
	}
	return Anomaly{}, false
}

// GomegaString keeps failure messages short.
func (r *Report) GomegaString() string {
	return r.Check + ": " + r.Verdict.String() + ": " + strings.TrimSpace(r.Summary)
}

// Checker examines a history.
type Checker interface {
	// Name identifies the checker among those of a test.
	Name() string
	// Check examines h. It returns an error only if it could not do its work
	// (the history cannot be read, ctx ended); a history about which it cannot
	// decide is a Report of Unknown.
	Check(ctx context.Context, h histories.History) (*Report, error)
}

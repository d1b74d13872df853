// Package listappend finds anomalies in transactions over lists: each
// micro-operation appends a unique value to the list under a key, or reads a
// whole list. What a transaction read shows which appends came before it, and
// in which order, so that violations of isolation can be proved from the
// history alone (Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies
// from Experimental Observations", VLDB 2020, §3–4).
//
// The anomalies, by the names that Adya ("Weak Consistency", MIT 1999) and Elle
// give them:
//
//   - G1a, aborted read: an element was read that a failed transaction appended.
//   - G1b, intermediate read: a read ends with an element after which the same
//     transaction appended another one to that key.
//   - internal: a read contradicts what its own transaction did before.
//   - duplicate-elements: a list holds an element twice.
//   - incompatible-order: of two reads of a key neither is a prefix of the other.
//   - lost-update: two committed transactions read the same version of a key and
//     then both appended to it.
//   - G-single-item-realtime: a read misses an append that had been acknowledged
//     before the reading transaction began (a stale read, or a lost append).
package listappend

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/histories"
)

// Anomalies are the types of anomalies that this package finds, sorted.
var Anomalies = []string{
	"G-single-item-realtime", "G1a", "G1b", "duplicate-elements", "incompatible-order", "internal", "lost-update",
}

// clarity orders the types by how directly an example shows what went wrong: the
// reader sees the first ones first.
var clarity = []string{
	"internal", "G1a", "G1b", "duplicate-elements", "lost-update", "incompatible-order", "G-single-item-realtime",
}

// maxExamples is the number of anomalies of each type that are explained.
const maxExamples = 8

// Checker returns a checker that looks for the given types of anomalies, all if
// none is given. It panics if it does not know a type: that is a mistake in the test.
//
// A history of another shape (a value that is no transaction, an element that
// was appended twice) cannot be judged: the verdict is Unknown and names the
// operation.
func Checker(types ...string) folds.Checker {
	if err := Known(types...); err != nil {
		panic("listappend: " + err.Error())
	}
	if len(types) == 0 {
		types = Anomalies
	}
	return checker{types}
}

// Known returns an error that names the first of the given types that this
// package does not look for.
func Known(types ...string) error {
	for _, t := range types {
		if !slices.Contains(Anomalies, t) {
			return fmt.Errorf("unknown type of anomaly %q; known are %s", t, strings.Join(Anomalies, ", "))
		}
	}
	return nil
}

type checker struct{ types []string }

// Name says what is looked for if that is not everything.
func (c checker) Name() string {
	if len(c.types) == len(Anomalies) {
		return "list-append"
	}
	return "list-append(" + strings.Join(c.types, ",") + ")"
}

func (c checker) Check(ctx context.Context, h histories.History) (*folds.Report, error) {
	col, err := folds.Run(ctx, h, collectFold())
	if err != nil {
		return nil, err
	}
	rep := &folds.Report{Check: c.Name(), Counts: map[string]int{}}
	if col.malformed != "" {
		rep.Verdict, rep.Summary = folds.Unknown, col.malformed
		return rep, nil
	}
	f := &finder{collected: col, want: c.types, rep: rep}
	f.findAll()
	c.conclude(rep, col)
	return rep, nil
}

func (c checker) conclude(rep *folds.Report, col *collected) {
	types := make([]string, 0, len(rep.Counts))
	for t := range rep.Counts {
		types = append(types, t)
	}
	slices.Sort(types)
	slices.SortStableFunc(rep.Anomalies, func(a, b folds.Anomaly) int {
		return slices.Index(clarity, a.Type) - slices.Index(clarity, b.Type)
	})
	var names []histories.Value
	for _, t := range types {
		names = append(names, histories.String(t))
	}
	rep.Data = histories.MapOf(
		histories.Entry{Key: histories.Keyword("anomaly-types"), Value: histories.List(names...)},
		histories.Entry{Key: histories.Keyword("ok-transactions"), Value: histories.Int(int64(len(col.txns)))},
		histories.Entry{Key: histories.Keyword("keys"), Value: histories.Int(int64(len(col.keys)))},
		histories.Entry{Key: histories.Keyword("reads"), Value: histories.Int(col.reads)})
	if len(types) == 0 {
		rep.Verdict = folds.Valid
		rep.Summary = fmt.Sprintf("%d transactions over %d keys show none of: %s", len(col.txns), len(col.keys), strings.Join(c.types, ", "))
		return
	}
	rep.Verdict = folds.Invalid
	var parts []string
	for _, t := range types {
		parts = append(parts, fmt.Sprintf("%s (%d)", t, rep.Counts[t]))
	}
	rep.Summary = fmt.Sprintf("%d transactions show %s", len(col.txns), strings.Join(parts, ", "))
}

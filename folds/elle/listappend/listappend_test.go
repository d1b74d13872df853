package listappend_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/folds/elle/listappend"
	"github.com/jepsentest/go/histories"
)

func ints(ns ...int64) histories.Value { return histories.Ints(ns...) }
func n(i int64) histories.Value        { return histories.Int(i) }

func r(key int64, list ...int64) histories.Mop {
	if list == nil {
		return histories.ReadOf(n(key), histories.Nil())
	}
	return histories.ReadOf(n(key), ints(list...))
}
func a(key, v int64) histories.Mop { return histories.Append(n(key), n(v)) }

// tx is a transaction, run alone or, when it says so, together with the next one.
type tx struct {
	outcome  histories.Type
	mops     []histories.Mop
	withNext bool
}

func ok(mops ...histories.Mop) tx     { return tx{histories.OK, mops, false} }
func failed(mops ...histories.Mop) tx { return tx{histories.Fail, mops, false} }
func crash(mops ...histories.Mop) tx  { return tx{histories.Info, mops, false} }
func and(t tx) tx                     { t.withNext = true; return t }

// history runs transactions by processes of their own.
func history(t *testing.T, txs ...tx) histories.History {
	t.Helper()
	var ops, late []histories.Op
	for i, x := range txs {
		args := slices.Clone(x.mops)
		for j := range args {
			if args[j].Kind == histories.MopRead {
				args[j].Value = histories.Nil()
			}
		}
		p := histories.Process(i)
		ops = append(ops, histories.Op{Process: p, Type: histories.Invoke, F: "txn", Value: histories.Txn(args...)})
		done := histories.Op{Process: p, Type: x.outcome, F: "txn", Value: histories.Txn(x.mops...)}
		if x.outcome != histories.OK {
			done.Value = histories.Txn(args...)
		}
		late = append(late, done)
		if !x.withNext {
			ops = append(ops, late...)
			late = nil
		}
	}
	h, err := histories.New(append(ops, late...)...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestAnomalies(t *testing.T) {
	for _, c := range []struct {
		name string
		txs  []tx
		want []string
		text string // must occur in the first explanation
	}{
		{"empty", nil, nil, ""},
		{"serial", []tx{ok(a(1, 1)), ok(r(1, 1), a(1, 2)), ok(r(1, 1, 2), r(2))}, nil, ""},
		{"aborted read", []tx{and(failed(a(1, 1))), ok(r(1, 1))}, []string{"G1a"}, "appended by operation 2, which failed"},
		{"crashed appends may be read", []tx{crash(a(1, 1)), ok(r(1, 1))}, nil, ""},
		{"crashed appends may be missed", []tx{crash(a(1, 1)), ok(r(1))}, nil, ""},
		{"intermediate read", []tx{and(ok(a(1, 1), a(1, 2))), ok(r(1, 1)), ok(r(1, 1, 2))}, []string{"G1b"}, "also appended 2"},
		{"own intermediate state", []tx{ok(a(1, 1), r(1, 1), a(1, 2))}, nil, ""},
		{"intermediate of a crashed one", []tx{crash(a(1, 1), a(1, 2)), ok(r(1, 1))}, []string{"G1b"}, ""},
		{"internal, after an append", []tx{ok(a(1, 1), r(1))}, []string{"internal"}, "should be [… 1]"},
		{"internal, two reads", []tx{and(ok(a(1, 1))), ok(r(1), r(1, 1))}, []string{"internal"}, "should be []"},
		{"internal, read then append", []tx{ok(r(1), a(1, 1), r(1, 1))}, nil, ""},
		{"internal, unknown prefix", []tx{ok(a(1, 1)), ok(a(1, 2), r(1, 1, 2))}, nil, ""},
		{"duplicates", []tx{ok(a(1, 1)), ok(r(1, 1, 1))}, []string{"duplicate-elements"}, "holds 1 twice"},
		{"incompatible order", []tx{and(ok(a(1, 1))), and(ok(a(1, 2))), and(ok(r(1, 1, 2))), ok(r(1, 2, 1))},
			[]string{"incompatible-order"}, "neither list is a prefix"},
		{"lost update", []tx{and(ok(r(1), a(1, 1))), ok(r(1), a(1, 2))}, []string{"lost-update"}, "the same version of key 1"},
		{"update of what was read after an append", []tx{ok(a(1, 1), r(1, 1), a(1, 2)), ok(r(1, 1, 2), a(1, 3))}, nil, ""},
		{"stale read", []tx{ok(a(1, 1)), ok(r(1)), ok(r(1, 1))}, []string{"G-single-item-realtime"}, "without element 1"},
		{"lost append", []tx{ok(a(1, 1)), ok(r(1))}, []string{"G-single-item-realtime"}, "had completed before the read began"},
		{"concurrent with the append", []tx{and(ok(a(1, 1))), ok(r(1)), ok(r(1, 1))}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep, err := listappend.Checker().Check(context.Background(), history(t, c.txs...))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for typ := range rep.Counts {
				got = append(got, typ)
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) || (rep.Verdict == folds.Valid) != (c.want == nil) {
				t.Fatalf("got %v, %v, want %v; %v", rep.Verdict, got, c.want, rep.Anomalies)
			}
			if c.text != "" && !strings.Contains(rep.Anomalies[0].Text, c.text) {
				t.Errorf("explanation lacks %q:\n%s", c.text, rep.Anomalies[0].Text)
			}
		})
	}
}

func TestOnlyWhatWasAskedFor(t *testing.T) {
	h := history(t, and(failed(a(1, 1))), ok(r(1, 1)))
	rep, err := listappend.Checker("G1b", "internal").Check(context.Background(), h)
	if err != nil || rep.Verdict != folds.Valid {
		t.Errorf("got %v, %v", rep, err)
	}
}

func TestHistoriesOfAnotherShape(t *testing.T) {
	inv := func(v histories.Value) histories.Op { return histories.Op{Type: histories.Invoke, F: "txn", Value: v} }
	done := func(v histories.Value) histories.Op { return histories.Op{Type: histories.OK, F: "txn", Value: v} }
	for name, ops := range map[string][]histories.Op{
		"no transaction":       {inv(n(3)), done(n(3))},
		"no result":            {inv(histories.Txn(a(1, 1))), done(histories.Nil())},
		"shorter result":       {inv(histories.Txn(a(1, 1), a(1, 2))), done(histories.Txn(a(1, 1)))},
		"duplicate appends":    {inv(histories.Txn(a(1, 1))), done(histories.Txn(a(1, 1))), inv(histories.Txn(a(1, 1)))},
		"other appends":        {inv(histories.Txn(a(1, 1))), done(histories.Txn(a(1, 2)))},
		"a write":              {inv(histories.Txn(histories.Write(n(1), n(1))))},
		"duplicate in one txn": {inv(histories.Txn(a(1, 1), a(1, 1)))},
	} {
		rep, err := listappend.Checker().Check(context.Background(), histories.Must(histories.New(ops...)))
		if err != nil || rep.Verdict != folds.Unknown || !strings.Contains(rep.Summary, "operation") {
			t.Errorf("%s: got %v, %v", name, rep, err)
		}
	}
}

func ExampleChecker() {
	h := histories.Must(histories.New(
		histories.Op{Process: 0, Type: histories.Invoke, F: "txn", Value: histories.Txn(a(5, 1))},
		histories.Op{Process: 1, Type: histories.Invoke, F: "txn", Value: histories.Txn(histories.Read(n(5)))},
		histories.Op{Process: 0, Type: histories.Fail, F: "txn", Value: histories.Txn(a(5, 1))},
		histories.Op{Process: 1, Type: histories.OK, F: "txn", Value: histories.Txn(r(5, 1))},
	))
	rep, err := listappend.Checker("G1a").Check(context.Background(), h)
	if err != nil {
		panic(err)
	}
	fmt.Println(rep.Verdict)
	fmt.Println(rep.Anomalies[0].Text)
	// Output:
	// invalid
	// T3 (process 1) [[:r 5 [1]]] read element 1 of key 5, which was appended by operation 2, which failed
}

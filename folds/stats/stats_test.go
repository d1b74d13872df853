package stats_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/folds/stats"
	"github.com/jepsentest/go/histories"
	"pgregory.net/rapid"
)

// The counts agree with counting by hand, whatever the chunks are.
func TestCountsAgreeWithCountingByHand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := histories.Builder{ChunkSize: rapid.IntRange(1, 20).Draw(t, "chunk")}
		var all stats.Counts
		byF := map[string]stats.Counts{}
		for i := range rapid.Int64Range(0, 200).Draw(t, "entries") {
			op := histories.Op{Index: i, Process: histories.Process(rapid.Int64Range(-1, 3).Draw(t, "process")),
				F: rapid.SampledFrom([]string{"read", "write", ""}).Draw(t, "f"), Type: histories.Type(rapid.IntRange(0, 3).Draw(t, "type"))}
			if err := b.Add(op); err != nil {
				t.Fatal(err)
			}
			if op.Process.IsClient() {
				all[op.Type]++
				n := byF[op.F]
				n[op.Type]++
				byF[op.F] = n
			}
		}
		got, err := folds.Run(context.Background(), b.History(), stats.Fold())
		if err != nil || got.Counts != all || fmt.Sprint(got.ByF) != fmt.Sprint(byF) {
			t.Fatalf("got %v, %v, want %v, %v", got, err, all, byF)
		}
	})
}

func TestVerdicts(t *testing.T) {
	op := func(f string, typ histories.Type) histories.Op { return histories.Op{F: f, Type: typ} }
	for _, c := range []struct {
		name string
		ops  []histories.Op
		want folds.Verdict
	}{
		{"nothing", nil, folds.Valid},
		{"all succeed", []histories.Op{op("r", histories.Invoke), op("r", histories.OK)}, folds.Valid},
		{"some succeed", []histories.Op{op("r", histories.Invoke), op("r", histories.Fail), op("r", histories.Invoke), op("r", histories.OK)}, folds.Valid},
		{"one never does", []histories.Op{op("r", histories.Invoke), op("r", histories.OK), op("w", histories.Invoke), op("w", histories.Info)}, folds.Unknown},
		{"one never completes", []histories.Op{op("r", histories.Invoke)}, folds.Valid},
	} {
		rep, err := stats.Checker().Check(context.Background(), histories.Must(histories.New(c.ops...)))
		if err != nil || rep.Verdict != c.want {
			t.Errorf("%s: got %v, %v", c.name, rep, err)
		}
	}
}

func ExampleFold() {
	h := histories.Must(histories.New(
		histories.Op{F: "read", Type: histories.Invoke},
		histories.Op{F: "read", Type: histories.OK},
		histories.Op{F: "read", Type: histories.Invoke},
		histories.Op{F: "read", Type: histories.Fail},
	))
	r, err := folds.Run(context.Background(), h, stats.Fold())
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Counts[histories.OK], "of", r.Counts.Total())
	// Output: 1 of 2
}

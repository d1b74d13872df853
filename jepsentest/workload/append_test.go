package workload_test

import (
	"testing"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/dsl/simulate"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/jepsentest/workload"
)

func TestAppendGeneratesUniqueElementsAndReadsEveryKeyAtTheEnd(t *testing.T) {
	w := workload.Append(workload.AppendOptions{KeyCount: 3, MaxWritesPerKey: 8})
	h, err := simulate.Run(dsl.Clients(dsl.Phases(dsl.Limit(2000, w.Generator), w.Final)),
		simulate.Options{Clients: 5, Seed: 7, Complete: simulate.Imperfect(5)})
	if err != nil {
		t.Fatal(err)
	}
	appended, used, read := map[[2]int64]bool{}, map[int64]bool{}, map[int64]bool{}
	perKey := map[int64]int{}
	txns, reads, appends := 0, 0, 0
	for _, op := range h {
		if op.Type != histories.Invoke {
			if mops, _ := op.Value.Txn(); op.Type == histories.OK && txns > 2000 {
				for _, m := range mops {
					k, _ := m.Key.Int()
					read[k] = true
				}
			}
			continue
		}
		txns++
		mops, ok := op.Value.Txn()
		if !ok || txns <= 2000 && (len(mops) < 1 || len(mops) > 4) {
			t.Fatalf("transaction %v", op)
		}
		for _, m := range mops {
			k, _ := m.Key.Int()
			used[k] = true
			if m.Kind == histories.MopRead {
				reads++
				continue
			}
			appends++
			v, _ := m.Value.Int()
			if appended[[2]int64{k, v}] {
				t.Fatalf("element %d is appended to key %d twice", v, k)
			}
			appended[[2]int64{k, v}] = true
			if perKey[k]++; perKey[k] > 8 {
				t.Fatalf("key %d gets more than 8 appends", k)
			}
		}
	}
	for k := range used {
		if !read[k] {
			t.Errorf("key %d is not read at the end", k)
		}
	}
	if len(used) < 10 || appends < 1000 {
		t.Errorf("%d keys, %d appends, %d reads", len(used), appends, reads)
	}
}

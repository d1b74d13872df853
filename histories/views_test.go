package histories_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jepsentest/go/histories"
	"pgregory.net/rapid"
)

// drawOps draws a well-formed history of a few processes, some crashing, and a
// nemesis.
func drawOps(t *rapid.T) []histories.Op {
	n := rapid.IntRange(0, 120).Draw(t, "entries")
	sparse := rapid.Bool().Draw(t, "sparse")
	var ops []histories.Op
	open := map[histories.Process]bool{}
	procs := []histories.Process{0, 1, 2, histories.Nemesis}
	index := int64(0)
	for i := range n {
		k := rapid.IntRange(0, len(procs)-1).Draw(t, "thread")
		p := procs[k]
		op := histories.Op{Index: index, Time: time.Duration(i * 10), Process: p,
			F:     rapid.SampledFrom([]string{"read", "write", "cas"}).Draw(t, "f"),
			Value: histories.Int(rapid.Int64Range(0, 5).Draw(t, "value"))}
		switch {
		case !p.IsClient():
			op.F, op.Type, op.Phase = "partition", histories.Info, histories.Begin
			if open[p] {
				op.Phase = histories.End
			}
			open[p] = !open[p]
		case open[p]:
			op.Type = rapid.SampledFrom([]histories.Type{histories.OK, histories.Fail, histories.Info}).Draw(t, "type")
			open[p] = false
			if op.Type == histories.Info {
				procs[k] += 3
			}
		default:
			open[p] = true
		}
		if rapid.IntRange(0, 9).Draw(t, "rare") == 0 {
			op.Error = histories.Keyword("timeout")
			op.Extra = []histories.Field{{Name: "node", Value: histories.String("n1")}}
		}
		ops = append(ops, op)
		index++
		if sparse {
			index += rapid.Int64Range(0, 3).Draw(t, "gap")
		}
	}
	return ops
}

// model is a view as a plain slice of operations.
type model []histories.Op

func build(t *rapid.T, ops []histories.Op, chunk int) histories.History {
	b := histories.Builder{ChunkSize: chunk}
	for _, op := range ops {
		if err := b.Add(op); err != nil {
			t.Fatal(err)
		}
	}
	return b.History()
}

// derive makes a random view of a view, and the same of the model.
func derive(t *rapid.T, h histories.History, m model) (histories.History, model) {
	preds := map[string]histories.Pred{
		"clients":  histories.Clients(),
		"named":    histories.NamedProcesses(),
		"oks":      histories.ByType(histories.OK, histories.Info),
		"reads":    histories.ByF("read"),
		"early":    histories.Between(100, 500),
		"even":     histories.Where(func(o histories.Op) bool { n, _ := o.Value.Int(); return n%2 == 0 }),
		"ok reads": histories.And(histories.ByType(histories.OK), histories.ByF("read")),
	}
	accept := map[string]func(histories.Op) bool{
		"clients":  func(o histories.Op) bool { return o.Process >= 0 },
		"named":    func(o histories.Op) bool { return o.Process < 0 },
		"oks":      func(o histories.Op) bool { return o.Type == histories.OK || o.Type == histories.Info },
		"reads":    func(o histories.Op) bool { return o.F == "read" },
		"early":    func(o histories.Op) bool { return o.Time >= 100 && o.Time < 500 },
		"even":     func(o histories.Op) bool { n, _ := o.Value.Int(); return n%2 == 0 },
		"ok reads": func(o histories.Op) bool { return o.Type == histories.OK && o.F == "read" },
	}
	switch rapid.IntRange(0, 2).Draw(t, "view") {
	case 0:
		name := rapid.SampledFrom([]string{"clients", "named", "oks", "reads", "early", "even", "ok reads"}).Draw(t, "pred")
		var out model
		for _, op := range m {
			if accept[name](op) {
				out = append(out, op)
			}
		}
		return histories.Filter(h, preds[name]), out
	case 1:
		f := func(o histories.Op) histories.Op {
			n, _ := o.Value.Int()
			o.Value = histories.Int(n + 1)
			if o.F == "cas" {
				o.F = "read"
			}
			return o
		}
		var out model
		for _, op := range m {
			out = append(out, f(op))
		}
		return histories.Map(h, f), out
	default:
		from := rapid.Int64Range(0, 60).Draw(t, "from")
		to := from + rapid.Int64Range(0, 80).Draw(t, "len")
		n := int64(len(m))
		return histories.Slice(h, from, to), m[min(from, n):min(to, n)]
	}
}

// naivePartner finds the other entry of ops[i] by going through the history.
func naivePartners(ops []histories.Op) map[int64]int64 {
	open, out := map[histories.Process]int64{}, map[int64]int64{}
	for _, op := range ops {
		if inv, ok := open[op.Process]; ok {
			out[inv], out[op.Index] = op.Index, inv
			delete(open, op.Process)
			continue
		}
		open[op.Process] = op.Index
	}
	return out
}

func TestViewsAgreeWithSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ops := drawOps(t)
		h := build(t, ops, rapid.IntRange(1, 40).Draw(t, "chunk"))
		partners := naivePartners(ops)
		m := model(ops)
		for range rapid.IntRange(0, 4).Draw(t, "views") {
			h, m = derive(t, h, m)
		}
		n, err := h.Len()
		if err != nil || n != int64(len(m)) {
			t.Fatalf("Len: got %d, %v, want %d", n, err, len(m))
		}
		all, err := histories.Collect(h)
		if err != nil {
			t.Fatal(err)
		}
		byIndex := map[int64]histories.Op{}
		for i, want := range m {
			byIndex[want.Index] = want
			if !all[i].Equal(want) {
				t.Fatalf("All: operation %d is %v, want %v", i, all[i], want)
			}
			got, err := h.Nth(int64(i))
			if err != nil || !got.Equal(want) {
				t.Fatalf("Nth(%d): got %v, %v, want %v", i, got, err, want)
			}
		}
		if len(all) != len(m) {
			t.Fatalf("All: %d operations, want %d", len(all), len(m))
		}
		for _, op := range ops {
			want, wantOK := byIndex[op.Index]
			got, ok, err := h.Get(op.Index)
			if err != nil || ok != wantOK || ok && !got.Equal(want) {
				t.Fatalf("Get(%d): got %v, %v, %v, want %v, %v", op.Index, got, ok, err, want, wantOK)
			}
			if !wantOK {
				continue
			}
			partner, paired := byIndex[partners[op.Index]]
			_, has := partners[op.Index]
			paired = paired && has
			find := h.Completion
			if paired && partner.Index < op.Index {
				find = h.Invocation
			}
			got, ok, err = find(want)
			if err != nil || ok != paired || ok && !got.Equal(partner) {
				t.Fatalf("partner of %v: got %v, %v, %v, want %v, %v", want, got, ok, err, partner, paired)
			}
		}
		if _, err := h.Nth(n); !errors.Is(err, histories.ErrOutOfRange) {
			t.Fatalf("Nth beyond the end: got %v", err)
		}
	})
}

func TestNewNamesTheWrongOperation(t *testing.T) {
	inv := histories.Op{Type: histories.Invoke, F: "read"}
	ok := histories.Op{Type: histories.OK, F: "read"}
	at := func(op histories.Op, index int64) histories.Op { op.Index = index; return op }
	for _, c := range []struct {
		name string
		ops  []histories.Op
		pos  int64
		err  error
	}{
		{"double invoke", []histories.Op{inv, inv}, 1, histories.ErrDoubleInvoke},
		{"no invocation", []histories.Op{inv, ok, ok}, 2, histories.ErrNotInvoked},
		{"index repeats", []histories.Op{at(inv, 4), at(ok, 4)}, 1, histories.ErrIndex},
		{"index falls", []histories.Op{at(inv, 4), at(ok, 3)}, 1, histories.ErrIndex},
		{"some indices", []histories.Op{at(inv, 0), at(ok, histories.Missing)}, 1, histories.ErrIndex},
		{"negative index", []histories.Op{at(inv, -7), at(ok, 3)}, 0, histories.ErrIndex},
	} {
		_, err := histories.New(c.ops...)
		var oe *histories.OpError
		if !errors.As(err, &oe) || !errors.Is(err, c.err) || oe.Pos != c.pos {
			t.Errorf("%s: got %v, want %v at %d", c.name, err, c.err, c.pos)
		}
	}
}

// A second invocation is found wherever the chunk boundary lies.
func TestDoubleInvokeAcrossChunks(t *testing.T) {
	for size := 1; size < 8; size++ {
		b := histories.Builder{ChunkSize: size}
		for i := range int64(6) {
			if err := b.Add(histories.Op{Index: i, Process: histories.Process(i % 5), F: "read"}); err != nil {
				t.Fatal(err)
			}
		}
		h := b.History()
		first, err := h.Nth(0)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = h.Completion(first)
		var oe *histories.OpError
		if !errors.As(err, &oe) || oe.Pos != 5 || !errors.Is(err, histories.ErrDoubleInvoke) {
			t.Errorf("chunks of %d: got %v", size, err)
		}
	}
}

func ExampleNew() {
	h, err := histories.New(
		histories.Op{Process: 0, Type: histories.Invoke, F: "read"},
		histories.Op{Process: 1, Type: histories.Invoke, F: "write", Value: histories.Int(3)},
		histories.Op{Process: 1, Type: histories.OK, F: "write", Value: histories.Int(3)},
		histories.Op{Process: 0, Type: histories.OK, F: "read", Value: histories.Int(3)},
	)
	if err != nil {
		panic(err)
	}
	for op, err := range histories.Filter(h, histories.ByF("read")).All() {
		if err != nil {
			panic(err)
		}
		done, ok, err := h.Completion(op)
		if err != nil {
			panic(err)
		}
		if ok {
			fmt.Println(op.Process, "read", done.Value)
		}
	}
	// Output: 0 read 3
}

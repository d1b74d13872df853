package store_test

import (
	"path/filepath"
	"testing"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/store"
	"github.com/jepsentest/go/store/internal/listappend"
)

func TestListAppendRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.jt")
	w, err := store.Create(path, store.Options{ChunkOps: 1000})
	if err != nil {
		t.Fatal(err)
	}
	g := listappend.New(1, 20)
	var ops []histories.Op
	for range 50_500 {
		var op histories.Op
		g.Next(&op)
		ops = append(ops, op)
		if err := w.Append(&op); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.SetMeta(histories.MapOf(histories.Entry{Key: histories.Keyword("name"), Value: histories.String("x")})); err != nil {
		t.Fatal(err)
	}
	if err := w.SetResults(histories.Bool(true), histories.Field{Name: "stats", Value: histories.Int(3)}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	i := 0
	for op, err := range f.History().All() {
		if err != nil {
			t.Fatal(err)
		}
		if !op.Equal(ops[i]) {
			t.Fatalf("operation %d:\n%v\n%v", i, op, ops[i])
		}
		i++
	}
	if i != len(ops) {
		t.Fatal(i)
	}
	if err := histories.Check(f.History().Source()); err != nil {
		t.Fatal(err)
	}
	m, err := f.Meta()
	t.Log(m, err)
	r, err := f.Results()
	if err != nil {
		t.Fatal(err)
	}
	v, ok, err := r.Get("stats")
	t.Log(r.Verdict, r.Names(), v, ok, err)
}

package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/store"
	"github.com/jepsentest/go/store/internal/listappend"
)

// writeHistory writes n operations of the list-append history to path, with
// metadata, and returns them.
func writeHistory(t testing.TB, path string, n int) []histories.Op {
	t.Helper()
	w, err := store.Create(path, store.Options{ChunkOps: 1000})
	if err != nil {
		t.Fatal(err)
	}
	g := listappend.New(1, 20)
	ops := make([]histories.Op, n)
	for i := range ops {
		g.Next(&ops[i])
		if err := w.Append(&ops[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.SetMeta(histories.MapOf(histories.Entry{Key: histories.Keyword("name"), Value: histories.String("demo")})); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return ops
}

func open(t testing.TB, path string) *store.File {
	t.Helper()
	f, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func expect(t testing.TB, f *store.File, ops []histories.Op) {
	t.Helper()
	i := 0
	for op, err := range f.History().All() {
		if err != nil {
			t.Fatal(err)
		}
		if i >= len(ops) || !op.Equal(ops[i]) {
			t.Fatalf("operation %d: %v", i, op)
		}
		i++
	}
	if i != len(ops) {
		t.Fatalf("%d operations of %d", i, len(ops))
	}
}

// Analyses follow each other; the results of the one before stay readable
// until the file is compacted, which also makes it smaller.
func TestReanalyseAndCompact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.jt")
	ops := writeHistory(t, path, 30_000)
	for i := range 3 {
		w, err := store.OpenAppend(path, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = w.SetResults(histories.Int(int64(i)),
			histories.Field{Name: "stats", Value: histories.Ints(int64(i), 7)},
			histories.Field{Name: "elle", Value: histories.Bytes(make([]byte, 1<<20))})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	f := open(t, path)
	expect(t, f, ops)
	for i, g := 2, f; i >= 0; i-- {
		r, err := g.Results()
		if err != nil {
			t.Fatal(err)
		}
		if !r.Verdict.Equal(histories.Int(int64(i))) || fmt.Sprint(r.Names()) != "[stats elle]" {
			t.Fatalf("analysis %d: %v %v", i, r.Verdict, r.Names())
		}
		if v, ok, err := r.Get("stats"); err != nil || !ok || !v.Equal(histories.Ints(int64(i), 7)) {
			t.Fatal(v, ok, err)
		}
		if _, ok, err := r.Get("none"); ok || err != nil {
			t.Fatal(ok, err)
		}
		p, ok, err := g.Previous()
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if p.Len() != f.Len() {
			t.Fatalf("%d operations before the analysis", p.Len())
		}
		g = p
		if i == 0 {
			if r, err := g.Results(); r != nil || err != nil {
				t.Fatalf("results before the first analysis: %v, %v", r, err)
			}
			if _, ok, err := g.Previous(); ok || err != nil {
				t.Fatal(ok, err)
			}
		}
	}
	before, after, err := store.Compact(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("compacted from %d to %d bytes", before, after)
	if after >= before*9/10 {
		t.Errorf("compacted from %d to %d bytes only", before, after)
	}
	expect(t, f, ops) // the old file, which is still open
	g := open(t, path)
	expect(t, g, ops)
	if r, err := g.Results(); err != nil || !r.Verdict.Equal(histories.Int(2)) {
		t.Fatal(r, err)
	}
	if m, err := g.Meta(); err != nil || !g.Complete() || m.Len() != 1 {
		t.Fatal(m, err, g.Complete())
	}
	if n, err := store.Verify(path, store.Options{}, func(c *store.CorruptError) { t.Error(c) }); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Fatalf("left behind: %v, %v", left, err)
	}
	if err := f.Refresh(); err != nil { // its own file has not changed
		t.Fatal(err)
	}
}

// A damaged history is not compacted, and stays as it is.
func TestCompactRefusesDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.jt")
	writeHistory(t, path, 5000)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{20_000, len(b) - 10} { // a column; the newest root
		b[at] ^= 1
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, err := store.Compact(path); !errors.Is(err, store.ErrCorrupt) {
			t.Fatalf("Compact: %v", err)
		}
		now, err := os.ReadFile(path)
		if err != nil || string(now) != string(b) {
			t.Fatal("the file has changed", err)
		}
		b[at] ^= 1
	}
}

func TestNotABlockLog(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"empty": "", "short": "JT", "text": "{:type :invoke}\n"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Open(path, store.Options{}); !errors.Is(err, store.ErrNotBlockLog) {
			t.Errorf("Open(%s): %v", name, err)
		}
		if ok, err := store.IsBlockLog(path); ok || err != nil {
			t.Errorf("IsBlockLog(%s): %v, %v", name, ok, err)
		}
	}
	if _, err := store.Open(filepath.Join(dir, "none"), store.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestRuns(t *testing.T) {
	root := store.Root(filepath.Join(t.TempDir(), "store"))
	if runs, err := root.Runs(""); len(runs) != 0 || err != nil {
		t.Fatal(runs, err)
	}
	if _, err := root.Latest(""); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 30, 14, 5, 6, 789e6, time.UTC)
	first, err := root.NewRun("etcd register", at)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(string(root), "etcd register", "20261130T140506.789Z"); first.Dir != want {
		t.Fatalf("%s, not %s", first.Dir, want)
	}
	same, err := root.NewRun("etcd register", at.Add(time.Microsecond))
	if err != nil || same.Dir == first.Dir || !same.Time.After(first.Time) {
		t.Fatal(same, err)
	}
	other, err := root.NewRun("bank", at.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(string(root), "bank", "notes"), 0o755); err != nil {
		t.Fatal(err)
	}
	runs, err := root.Runs("")
	if err != nil || len(runs) != 3 || runs[0] != same || runs[1] != first || runs[2] != other {
		t.Fatal(runs, err)
	}
	if r, err := root.Latest("bank"); err != nil || r != other {
		t.Fatal(r, err)
	}
	writeHistory(t, other.History(), 10)
	f, err := other.Open(store.Options{})
	if err != nil || f.Len() != 10 {
		t.Fatal(err)
	}
	f.Close()
	// The links point to what was made last, and stay right if root is moved.
	for _, link := range []string{"latest", "bank/latest"} {
		path, err := store.FindHistory(filepath.Join(string(root), link))
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := store.IsBlockLog(path); !ok || err != nil {
			t.Fatal(path, ok, err)
		}
		if target, err := os.Readlink(filepath.Join(string(root), link)); err != nil || filepath.IsAbs(target) {
			t.Fatal(target, err)
		}
	}
	for _, bad := range []string{"", "a/b", "..", "latest", ".hidden", "a\x00b", `a\b`} {
		if _, err := root.NewRun(bad, at); err == nil {
			t.Errorf("a run named %q was made", bad)
		}
	}
}

package store

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jepsentest/go/histories"
)

var update = flag.Bool("update-golden", false, "write the golden files anew; only for a new version of the format")

// goldenOps is the history in the golden files: every kind of value, every
// column, and every way in which a value refers to another.
func goldenOps() []histories.Op {
	i := histories.Int
	var ops []histories.Op
	add := func(p histories.Process, typ histories.Type, f string, v histories.Value) *histories.Op {
		ops = append(ops, histories.Op{Index: int64(len(ops)), Time: time.Duration(len(ops)*len(ops)) * time.Microsecond,
			Process: p, Type: typ, F: f, Value: v})
		return &ops[len(ops)-1]
	}
	add(0, histories.Invoke, "txn", histories.Txn(histories.Read(i(1)), histories.Append(i(1), i(7)), histories.Read(histories.String("k"))))
	add(1, histories.Invoke, "txn", histories.Txn(histories.Read(i(1))))
	add(0, histories.OK, "txn", histories.Txn(histories.ReadOf(i(1), histories.Ints(5, 6)), histories.Append(i(1), i(7)), histories.Read(histories.String("k"))))
	add(histories.Nemesis, histories.Info, "kill", histories.Keyword("all")).Phase = histories.Begin
	add(1, histories.OK, "txn", histories.Txn(histories.ReadOf(i(1), histories.Ints(5, 6, 7))))
	add(histories.Nemesis, histories.Info, "kill", histories.SetOf(histories.String("n1"))).Phase = histories.End
	add(2, histories.Invoke, "read", histories.Tuple(i(3), histories.Nil()))
	add(2, histories.OK, "read", histories.Tuple(i(3), histories.Ints(1, 2)))
	add(3, histories.Invoke, "read", histories.Nil())
	for _, v := range someValues() {
		add(4, histories.Invoke, "value", v)
		add(4, histories.OK, "value", v)
	}
	last := add(3, histories.Info, "read", histories.Nil())
	last.Error = histories.List(histories.Keyword("timeout"), histories.Int(1000))
	last.Extra = []histories.Field{{Name: "node", Value: histories.String("n2")}}
	add(5, histories.Invoke, "value", histories.Custom(point{1, -1}))
	return ops
}

// Files of version 1 can be read for ever.
func TestGolden(t *testing.T) {
	for _, name := range []string{"v1.jt", "v1-compact.jt", "v1-sparse.jt"} {
		path := filepath.Join("testdata", name)
		ops := goldenOps()
		if strings.Contains(name, "sparse") {
			for i := range ops {
				ops[i].Index = int64(3*i + 1)
			}
		}
		opts := Options{ChunkOps: 16, Codecs: []Codec{pointCodec()}, Names: histories.Names{"nemesis", "admin"}}
		if *update {
			os.Remove(path)
			writeAll(t, path, ops, opts)
			w, err := OpenAppend(path, opts)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.SetMeta(histories.MapOf(histories.Entry{Key: histories.Keyword("name"), Value: histories.String("golden")})); err != nil {
				t.Fatal(err)
			}
			if err := w.SetResults(histories.Bool(true), histories.Field{Name: "stats", Value: histories.Int(1)}); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(name, "compact") {
				if _, _, err := Compact(path); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n, err := Verify(path, opts, func(c *CorruptError) { t.Error(c) }); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		f, err := Open(path, opts)
		if err != nil {
			t.Fatal(err)
		}
		got, err := histories.Collect(f.History())
		if err != nil || len(got) != len(ops) {
			t.Fatalf("%s: %d operations of %d, %v", name, len(got), len(ops), err)
		}
		samePrefix(t, got, ops)
		meta, err := f.Meta()
		if err != nil || meta.String() != `{:name "golden"}` {
			t.Fatal(meta, err)
		}
		r, err := f.Results()
		if err != nil || r.Verdict.String() != "true" {
			t.Fatal(err)
		}
		if v, ok, err := r.Get("stats"); fmt.Sprint(v, ok, err) != "1 true <nil>" {
			t.Fatal(v, ok, err)
		}
		if h := f.History(); h.ProcessName(-2) != "admin" || !f.Complete() || f.History().Dense() == strings.Contains(name, "sparse") {
			t.Fatal("the root is not what was written")
		}
		f.Close()
	}
}

// The bytes of what is written are those of the golden files, up to the random
// id of the file: a change of the format does not go unnoticed.
func TestGoldenBytes(t *testing.T) {
	opts := Options{ChunkOps: 16, Codecs: []Codec{pointCodec()}, Names: histories.Names{"nemesis", "admin"}}
	want, err := os.ReadFile(filepath.Join("testdata", "v1.jt"))
	if err != nil {
		t.Fatal(err)
	}
	dev := memFile(want)
	f, err := openOn(dev, "mem", opts)
	if err != nil {
		t.Fatal(err)
	}
	var e chunkEncoder
	e.values.codecs = opts.Codecs
	e.reset(0)
	var pairer histories.Pairer
	ops := goldenOps()
	for i := range ops[:16] {
		if err := e.check(&ops[i]); err != nil {
			t.Fatal(err)
		}
		inv, ok, _ := pairer.Add(int64(i), ops[i].Process, ops[i].Type, ops[i].Phase)
		if !ok {
			inv = -1
		}
		e.add(&ops[i], inv)
	}
	at, err := f.entry(0)
	if err != nil {
		t.Fatal(err)
	}
	p := packer{base: at.off, on: true}
	e.finish(&p, 0)
	if string(p.out) != string(want[at.off:at.off+int64(len(p.out))]) {
		t.Error("the first chunk is not encoded as in the golden file")
	}
}

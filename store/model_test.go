package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/jepsentest/go/histories"
	"pgregory.net/rapid"
)

type point struct{ x, y int32 }

func pointCodec() Codec {
	return NewCodec("point",
		func(b []byte, p point) ([]byte, error) {
			if p.x == math.MinInt32 {
				return nil, errors.New("too far out")
			}
			b = binary.LittleEndian.AppendUint32(b, uint32(p.x))
			return binary.LittleEndian.AppendUint32(b, uint32(p.y)), nil
		},
		func(b []byte) (point, error) {
			if len(b) != 8 {
				return point{}, errors.New("wrong length")
			}
			return point{int32(binary.LittleEndian.Uint32(b)), int32(binary.LittleEndian.Uint32(b[4:]))}, nil
		})
}

// genValue draws values of every kind. Keys and elements come from small sets,
// so that lists extend each other and completions resemble invocations.
func genValue(t *rapid.T, depth int) histories.Value {
	kinds := 16
	if depth > 2 {
		kinds = 9
	}
	list := func() []histories.Value {
		vs := make([]histories.Value, rapid.IntRange(0, 3).Draw(t, "n"))
		for i := range vs {
			vs[i] = genValue(t, depth+1)
		}
		return vs
	}
	switch rapid.IntRange(0, kinds).Draw(t, "kind") {
	case 0:
		return histories.Nil()
	case 1:
		return histories.Bool(rapid.Bool().Draw(t, "bool"))
	case 2:
		return histories.Int(rapid.Int64Range(-20, 80).Draw(t, "small"))
	case 3:
		return histories.Int(rapid.Int64().Draw(t, "int"))
	case 4:
		return histories.Float(rapid.Float64().Draw(t, "float"))
	case 5:
		return histories.String(rapid.StringN(0, 5, -1).Draw(t, "string"))
	case 6:
		return histories.Keyword(rapid.SampledFrom([]string{"a", "b", "valid?", ""}).Draw(t, "keyword"))
	case 7:
		return histories.Bytes(rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "bytes"))
	case 8:
		return genInts(t)
	case 9:
		return histories.List(list()...)
	case 10:
		return histories.SetOf(list()...)
	case 11:
		es := make([]histories.Entry, rapid.IntRange(0, 3).Draw(t, "n"))
		for i := range es {
			es[i] = histories.Entry{Key: genValue(t, depth+1), Value: genValue(t, depth+1)}
		}
		return histories.MapOf(es...)
	case 12:
		return genTxn(t, depth)
	case 13:
		return histories.Tuple(genKey(t), genValue(t, depth+1))
	case 14:
		return histories.Tagged("tag", genValue(t, depth+1))
	case 15:
		return histories.Custom(point{rapid.Int32Range(-3, 3).Draw(t, "x"), 4})
	}
	return histories.List(histories.Int(1), histories.Int(2), histories.Int(rapid.Int64Range(0, 3).Draw(t, "third")))
}

func genKey(t *rapid.T) histories.Value {
	return rapid.SampledFrom([]histories.Value{
		histories.Int(0), histories.Int(1), histories.Int(1 << 50), histories.String("1"), histories.Keyword("1"),
		histories.Nil(), histories.List(histories.Int(1)),
	}).Draw(t, "key")
}

// genInts draws lists of which most extend the list 1, 2, 3, …
func genInts(t *rapid.T) histories.Value {
	is := make([]int64, rapid.IntRange(0, 6).Draw(t, "n"))
	for i := range is {
		is[i] = int64(i + 1)
	}
	if len(is) > 0 && rapid.IntRange(0, 4).Draw(t, "diverge") == 0 {
		is[len(is)-1] = rapid.Int64().Draw(t, "other")
	}
	return histories.Ints(is...)
}

func genTxn(t *rapid.T, depth int) histories.Value {
	mops := make([]histories.Mop, rapid.IntRange(0, 18).Draw(t, "mops")%6*3%16)
	for i := range mops {
		mops[i].Kind = histories.MopKind(rapid.IntRange(0, 3).Draw(t, "mop"))
		mops[i].Key = genKey(t)
		switch rapid.IntRange(0, 4).Draw(t, "form") {
		case 0:
		case 1, 2:
			mops[i].Value = histories.Int(rapid.Int64Range(0, 5).Draw(t, "arg"))
		case 3:
			mops[i].Value = genInts(t)
		case 4:
			mops[i].Value = genValue(t, depth+1)
		}
	}
	return histories.Txn(mops...)
}

// fillIn returns what a completion of v may look like.
func fillIn(t *rapid.T, v histories.Value) histories.Value {
	mops, ok := v.Txn()
	if !ok || rapid.IntRange(0, 5).Draw(t, "unlike") == 0 {
		return genValue(t, 0)
	}
	out := make([]histories.Mop, len(mops))
	copy(out, mops)
	for i := range out {
		if !out[i].Value.IsNil() {
			continue
		}
		switch rapid.IntRange(0, 3).Draw(t, "read") {
		case 0, 1:
			out[i].Value = genInts(t)
		case 2:
			out[i].Value = genValue(t, 1)
		}
	}
	return histories.Txn(out...)
}

// genOps draws a history: not always a well-formed one.
func genOps(t *rapid.T, n int) []histories.Op {
	sparse := rapid.Bool().Draw(t, "sparse")
	ops := make([]histories.Op, n)
	last := make(map[histories.Process]histories.Value)
	index, now := int64(0), time.Duration(0)
	for i := range ops {
		if sparse {
			index += rapid.Int64Range(0, 3).Draw(t, "gap")
		}
		now += time.Duration(rapid.Int64Range(-1, 1000).Draw(t, "dt"))
		op := histories.Op{
			Index: index, Time: now + 1000,
			Process: histories.Process(rapid.Int64Range(-2, 6).Draw(t, "process")),
			Type:    histories.Type(rapid.IntRange(0, 3).Draw(t, "type")),
			F:       fmt.Sprint("f", rapid.IntRange(0, 300).Draw(t, "f")%rapid.SampledFrom([]int{1, 2, 5, 20, 300}).Draw(t, "fs")),
		}
		if !op.Process.IsClient() {
			op.Type, op.Phase = histories.Info, histories.Phase(rapid.IntRange(0, 2).Draw(t, "phase"))
		}
		if v, ok := last[op.Process]; ok && op.Type != histories.Invoke {
			op.Value = fillIn(t, v)
		} else {
			op.Value = genValue(t, 0)
			last[op.Process] = op.Value
		}
		if rapid.IntRange(0, 5).Draw(t, "error") == 0 {
			op.Error = genValue(t, 0)
		}
		for range rapid.IntRange(0, 10).Draw(t, "extra") / 9 {
			op.Extra = append(op.Extra, histories.Field{Name: "node", Value: genValue(t, 1)})
		}
		ops[i] = op
		index++
	}
	return ops
}

// What is written with chunks of any size is read back, and everything that
// the Source answers is what a slice of the operations says.
func TestAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ops := genOps(t, rapid.IntRange(0, 120).Draw(t, "ops"))
		opts := Options{
			ChunkOps: rapid.IntRange(1, 40).Draw(t, "chunk"),
			Codecs:   []Codec{pointCodec()},
			Cache:    NewCache(rapid.Int64Range(1, 1<<20).Draw(t, "budget")),
			Names:    histories.Names{"nemesis", "admin"},
		}
		dev := &memDevice{}
		w, err := createOn(dev, "mem", opts)
		if err != nil {
			t.Fatal(err)
		}
		var pairer histories.Pairer
		partner := make(map[int64]int64)
		for i := range ops {
			if err := w.Append(&ops[i]); err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 20).Draw(t, "flush") == 0 {
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			if inv, ok, _ := pairer.Add(int64(i), ops[i].Process, ops[i].Type, ops[i].Phase); ok {
				partner[int64(i)], partner[inv] = inv, int64(i)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "compact") {
			f, err := openOn(dev, "mem", opts)
			if err != nil {
				t.Fatal(err)
			}
			dev = &memDevice{}
			if err := f.copyTo(dev); err != nil {
				t.Fatal(err)
			}
		}
		v := verifier{dev: dev, opts: opts, report: func(c *CorruptError) { t.Errorf("Verify: %v", c) }}
		if err := v.run(); err != nil {
			t.Fatal(err)
		}
		f, err := openOn(dev, "mem", opts)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, f, ops, partner)
	})
}

func compare(t *rapid.T, f *File, ops []histories.Op, partner map[int64]int64) {
	h := f.History()
	if n, _ := h.Len(); n != int64(len(ops)) || f.Len() != n || h.ProcessName(-2) != "admin" {
		t.Fatalf("%d operations of %d", n, len(ops))
	}
	src := h.Source()
	for i, want := range ops {
		pos := int64(i)
		if got, err := h.Nth(pos); err != nil || !got.Equal(want) {
			t.Fatalf("Nth(%d):\n got %v, %v\nwant %v", i, got, err, want)
		}
		if got, ok, err := h.Get(want.Index); err != nil || !ok || !got.Equal(want) {
			t.Fatalf("Get(%d): %v, %v, %v", want.Index, got, ok, err)
		}
		if p, ok, err := src.Find(want.Index); err != nil || !ok || p != pos {
			t.Fatalf("Find(%d): %d, %v, %v", want.Index, p, ok, err)
		}
		p, ok, err := src.Partner(pos)
		if q, has := partner[pos]; err != nil || ok != has || ok && p != q {
			t.Fatalf("Partner(%d): %d, %v, %v; want %d, %v", pos, p, ok, err, q, has)
		}
		c := src.Locate(pos)
		if first, n := src.Span(c); pos < first || pos >= first+int64(n) {
			t.Fatalf("Locate(%d): chunk %d, which has [%d, %d)", pos, c, first, first+int64(n))
		}
	}
	if _, ok, err := src.Find(1 << 40); ok || err != nil {
		t.Fatal(ok, err)
	}
	pos := int64(0)
	for i := range src.NumChunks() {
		c, err := src.ReadChunk(i, histories.AllColumns)
		if err != nil {
			t.Fatal(err)
		}
		if first, n := src.Span(i); first != pos || n != c.Len() {
			t.Fatalf("Span(%d): %d, %d", i, first, n)
		}
		got, err := src.Summary(i)
		if err != nil {
			t.Fatal(err)
		}
		if want := histories.Summarize(c); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("Summary(%d):\n got %v\nwant %v", i, got, want)
		}
		pos += int64(c.Len())
	}
}

// Memory of an operation may be used again as soon as Append returns.
func TestAppendKeepsNothing(t *testing.T) {
	dev := &memDevice{}
	w, err := createOn(dev, "mem", Options{})
	if err != nil {
		t.Fatal(err)
	}
	is, text, f := []int64{1, 2, 3}, []byte("some text"), []byte("read")
	mops := []histories.Mop{histories.Read(histories.Int(1))}
	unsafeF := func() string { v := histories.Bytes(f); b, _ := v.Bytes(); return string(b) }
	ops := []histories.Op{
		{Index: 0, Type: histories.Invoke, F: unsafeF(), Value: histories.Txn(mops...)},
		{Index: 1, Type: histories.OK, F: "read", Value: histories.Txn(histories.ReadOf(histories.Int(1), histories.Ints(is...)))},
		{Index: 2, Type: histories.Invoke, F: "read", Value: histories.Bytes(text)},
	}
	var want []string
	for i := range ops {
		want = append(want, ops[i].String())
		if err := w.Append(&ops[i]); err != nil {
			t.Fatal(err)
		}
	}
	clear(is)
	clear(text)
	clear(mops)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, _, err := readAll(dev)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i].String() != want[i] {
			t.Errorf("%v became %v", want[i], got[i])
		}
	}
}

func TestUnencodable(t *testing.T) {
	w, err := createOn(&memDevice{}, "mem", Options{Codecs: []Codec{pointCodec()}})
	if err != nil {
		t.Fatal(err)
	}
	deep := histories.Nil()
	for range maxDepth + 2 {
		deep = histories.List(deep)
	}
	kv := func(v histories.Value) histories.Value {
		return histories.MapOf(histories.Entry{Key: histories.Keyword("key"), Value: v})
	}
	for want, v := range map[string]histories.Value{
		"value[2].key: no codec for values of type struct {}": histories.List(histories.Nil(), histories.Nil(), kv(histories.Custom(struct{}{}))),
		"value[1].value: no codec for values of type int": histories.Txn(histories.Read(histories.Int(1)),
			histories.Write(histories.Int(1), histories.Custom(3))),
		"value[0].key#t: codec point: too far out": histories.List(kv(histories.Tagged("t", histories.Custom(point{x: math.MinInt32})))),
		"nested deeper than 256":                   deep,
		"larger than 16 MiB":                       histories.Bytes(make([]byte, maxChunkBytes+1)),
		"unknown mop(9)":                           histories.Txn(histories.Mop{Kind: 9}),
	} {
		err := w.Append(&histories.Op{Type: histories.Invoke, Value: v})
		if !errors.Is(err, ErrUnencodable) || !errorSays(err, want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	for _, op := range []histories.Op{{Type: 7}, {Phase: 9}, {Index: -1}, {Time: histories.Missing}, {F: string(make([]byte, maxF+1))}} {
		if err := w.Append(&op); !errors.Is(err, ErrUnencodable) {
			t.Errorf("%v: %v", op.Type, err)
		}
	}
	// None of these was recorded, and none stays in the way.
	if err := w.Append(&histories.Op{Value: histories.Custom(point{1, 2})}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil || w.Sealed() != 1 {
		t.Fatal(err, w.Sealed())
	}
}

// Without its codec a custom value is read as a tagged one; a file that is
// recovered without it keeps it.
func TestUnknownCodec(t *testing.T) {
	dev := &memDevice{}
	w, err := createOn(dev, "mem", Options{Codecs: []Codec{pointCodec()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(&histories.Op{Value: histories.Custom(point{1, 2})}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	ops, _, err := readAll(dev)
	if err != nil {
		t.Fatal(err)
	}
	want := histories.Tagged("point", histories.Bytes([]byte{1, 0, 0, 0, 2, 0, 0, 0}))
	if !ops[0].Value.Equal(want) {
		t.Fatalf("%v", ops[0].Value)
	}
}

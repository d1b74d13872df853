package edn_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/histories/edn"
	other "olympos.io/encoding/edn"
)

func seeds(f *testing.F) {
	for _, s := range []string{
		"", "nil", "[1 2.5 -3]", `{:a "b\n" :c #{1 2}}`, "#inst \"x\"", "(a b)", `\a`, "##Inf", "[[:r 1 nil] [:append 2 3]]",
		"123456789012345678901234567890", "1/2", "#_ 1 2", "; c\n1", jepsen, "[" + jepsen + "]", "{:type :ok :process 1}",
	} {
		f.Add([]byte(s))
	}
}

// FuzzHistory: no text makes the reader panic or hang; what it reads can be
// written, and is then read the same.
func FuzzHistory(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := edn.ReadHistory(bytes.NewReader(text))
		if err != nil {
			return
		}
		var buf bytes.Buffer
		if err := edn.WriteHistory(&buf, h); err != nil {
			t.Fatal(err)
		}
		again, err := edn.ReadHistory(bytes.NewReader(buf.Bytes()))
		if err != nil {
			t.Fatalf("%v in %s", err, buf.Bytes())
		}
		a, _ := histories.Collect(h)
		b, _ := histories.Collect(again)
		if len(a) != len(b) {
			t.Fatalf("%d operations became %d", len(a), len(b))
		}
		for i := range a {
			if a[i].Process >= 0 && !a[i].Equal(b[i]) {
				t.Fatalf("%v became %v", a[i], b[i])
			}
		}
	})
}

// same compares a value with what another EDN library made of the same text,
// as far as both have a notion of it.
func same(v histories.Value, w any) bool {
	switch w := w.(type) {
	case nil:
		return v.IsNil()
	case bool:
		b, ok := v.Bool()
		return ok && b == w
	case int64:
		n, ok := v.Int()
		return ok && n == w
	case float64:
		f, ok := v.Float()
		return ok && (f == w || f != f && w != w)
	case string:
		s, ok := v.Str()
		return ok && s == w
	case edn2Keyword:
		s, ok := v.Keyword()
		return ok && s == string(w)
	case []any:
		if v.Kind() == histories.KindTxn {
			mops, _ := v.Txn()
			return len(mops) == len(w)
		}
		if v.Kind() != histories.KindList || v.Len() != len(w) {
			return false
		}
		for i := range w {
			if !same(v.At(i), w[i]) {
				return false
			}
		}
	}
	return true
}

type edn2Keyword = other.Keyword

// FuzzAgainstAnotherLibrary: what an independent EDN library reads as numbers,
// texts, keywords and vectors is read as the same here.
func FuzzAgainstAnotherLibrary(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		if !utf8.Valid(text) {
			return // kept as it is here, replaced there
		}
		d := other.NewDecoder(bytes.NewReader(text))
		var want any
		if err := d.Decode(&want); err != nil {
			return
		}
		if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
			return // more than one value
		}
		v, err := edn.ParseValue(string(text))
		if err != nil {
			return // stricter here: bad escapes, numbers with trailing letters, …
		}
		if !same(v, want) {
			t.Fatalf("%q: %v, but the other library reads %#v", text, v, want)
		}
	})
}

package text

import "github.com/jepsentest/go/histories"

// Slabs hands out memory for values in large pieces, and keeps one copy of each
// short text.
type Slabs struct {
	values []histories.Value
	ints   []int64
	mops   []histories.Mop
	words  map[string]string
}

const (
	slabSize = 4096
	// Texts up to maxWord bytes are kept once, up to maxWords of them.
	maxWord  = 64
	maxWords = 1 << 14
)

// carve takes n elements off the end of a slab.
func carve[T any](slab *[]T, n int) []T {
	if len(*slab) < n {
		*slab = make([]T, max(n, slabSize))
	}
	out := (*slab)[:n:n]
	*slab = (*slab)[n:]
	return out
}

// Word returns b as a string.
func (s *Slabs) Word(b []byte) string {
	if w, ok := s.words[string(b)]; ok {
		return w
	}
	if s.words == nil {
		s.words = map[string]string{}
	}
	w := string(b)
	if len(w) <= maxWord && len(s.words) < maxWords {
		s.words[w] = w
	}
	return w
}

// List makes a list of a copy of vs: a compact one if all are integers.
func (s *Slabs) List(vs []histories.Value) histories.Value {
	for i := range vs {
		if vs[i].Kind() != histories.KindInt {
			out := carve(&s.values, len(vs))
			copy(out, vs)
			return histories.List(out...)
		}
	}
	if len(vs) == 0 {
		return histories.Ints()
	}
	out := carve(&s.ints, len(vs))
	for i := range vs {
		out[i], _ = vs[i].Int()
	}
	return histories.Ints(out...)
}

// Transaction makes a transaction of vs, if that is what they are: lists of a
// word that names a kind of micro-operation, a key and a value. word returns the
// text of a value that may be such a word.
func (s *Slabs) Transaction(vs []histories.Value, word func(histories.Value) (string, bool)) (histories.Value, bool) {
	if len(vs) == 0 {
		return histories.Value{}, false
	}
	for i := range vs {
		if _, ok := mopKind(vs[i], word); !ok {
			return histories.Value{}, false
		}
	}
	mops := carve(&s.mops, len(vs))
	for i := range vs {
		kind, _ := mopKind(vs[i], word)
		mops[i] = histories.Mop{Kind: kind, Key: vs[i].At(1), Value: vs[i].At(2)}
	}
	return histories.Txn(mops...), true
}

func mopKind(v histories.Value, word func(histories.Value) (string, bool)) (histories.MopKind, bool) {
	if v.Kind() != histories.KindList || v.Len() != 3 {
		return 0, false
	}
	w, ok := word(v.At(0))
	if !ok {
		return 0, false
	}
	return histories.ParseMopKind(w)
}

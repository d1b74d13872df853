package folds

import "math/bits"

// bitset is a set of chunk numbers.
type bitset []uint64

// newBitset makes the set [from, n).
func newBitset(n, from int) bitset {
	s := make(bitset, (n+63)/64)
	for w := from / 64; w < len(s); w++ {
		s[w] = ^uint64(0)
	}
	if from%64 != 0 {
		s[from/64] &^= 1<<(from%64) - 1
	}
	if n%64 != 0 {
		s[n/64] &= 1<<(n%64) - 1
	}
	return s
}

func (s bitset) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }
func (s bitset) clear(i int)    { s[i/64] &^= 1 << (i % 64) }

// first returns the first element from i on, or -1.
func (s bitset) first(i int) int {
	for w := i / 64; w < len(s); w++ {
		word := s[w]
		if w == i/64 {
			word &^= 1<<(i%64) - 1
		}
		if word != 0 {
			return w*64 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// count returns the number of elements below limit.
func (s bitset) count(limit int) int {
	n := 0
	for i := s.first(0); i >= 0 && i < limit; i = s.first(i + 1) {
		n++
	}
	return n
}

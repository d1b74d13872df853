package folds

import (
	"math"
	"math/bits"
)

// Histogram says how numbers are distributed, in memory that does not depend on
// how many there are. Its buckets are as wide as a 128th of the numbers they
// hold, so whatever is read from it is off by less than 0.4 %; numbers below 256
// are exact.
type Histogram[N ~int64] struct {
	n        int64
	min, max N
	above    []int64 // of 0 and more, by bucket
	below    []int64 // of less than 0, by the bucket of what they are with the sign changed
}

// bucketOf returns the bucket of a number. Its seven leading bits after the
// first one and their place in the number make the bucket.
func bucketOf(v uint64) int {
	shift := max(0, bits.Len64(v)-8)
	return shift<<7 + int(v>>shift)
}

// middleOf returns the number in the middle of a bucket.
func middleOf(bucket int) uint64 {
	if bucket < 256 {
		return uint64(bucket)
	}
	shift := bucket>>7 - 1
	return uint64(bucket&127|128)<<shift + 1<<shift>>1
}

func (h *Histogram[N]) add(v N, n int64) {
	if h.n == 0 {
		h.min, h.max = v, v
	}
	h.n += n
	h.min, h.max = min(h.min, v), max(h.max, v)
	side, k := &h.above, 0
	if v >= 0 {
		k = bucketOf(uint64(v))
	} else {
		side, k = &h.below, bucketOf(-uint64(v))
	}
	if k >= len(*side) {
		*side = append(*side, make([]int64, k+1-len(*side))...)
	}
	(*side)[k] += n
}

func (h *Histogram[N]) merge(o *Histogram[N]) {
	if o.n == 0 {
		return
	}
	if h.n == 0 {
		h.min, h.max = o.min, o.max
	}
	h.n += o.n
	h.min, h.max = min(h.min, o.min), max(h.max, o.max)
	h.above = addCounts(h.above, o.above)
	h.below = addCounts(h.below, o.below)
}

// addCounts adds the shorter to the longer.
func addCounts(a, b []int64) []int64 {
	if len(a) < len(b) {
		a, b = b, a
	}
	for k, n := range b {
		a[k] += n
	}
	return a
}

// N returns how many numbers there are.
func (h *Histogram[N]) N() int64 { return h.n }

// Min returns the least of the numbers, exactly; 0 if there are none.
func (h *Histogram[N]) Min() N { return h.min }

// Max returns the greatest of the numbers, exactly; 0 if there are none.
func (h *Histogram[N]) Max() N { return h.max }

// Quantile returns a number that the share q of all numbers do not exceed: the
// median for 0.5, the greatest for 1. It is 0 if there are none.
func (h *Histogram[N]) Quantile(q float64) N {
	if h.n == 0 {
		return 0
	}
	rank := min(max(int64(math.Ceil(q*float64(h.n))), 1), h.n)
	if rank == h.n {
		return h.max
	}
	for k := len(h.below) - 1; k >= 0; k-- {
		if rank -= h.below[k]; rank <= 0 {
			return max(h.min, -N(min(middleOf(k), 1<<63)))
		}
	}
	for k, n := range h.above {
		if rank -= n; rank <= 0 {
			return min(max(h.min, N(middleOf(k))), h.max)
		}
	}
	panic("folds: a histogram counts more numbers than are in its buckets")
}

// Quantiles returns the distribution of the elements, of which any quantile can
// be read. Durations and int64 are such elements.
func Quantiles[N ~int64]() Agg[N, *Histogram[N], *Histogram[N]] {
	return Agg[N, *Histogram[N], *Histogram[N]]{
		Name: "quantiles",
		New:  func() *Histogram[N] { return &Histogram[N]{} },
		Add: func(h *Histogram[N], v N) (*Histogram[N], error) {
			h.add(v, 1)
			return h, nil
		},
		AddN: func(h *Histogram[N], v N, n int64) (*Histogram[N], error) {
			h.add(v, n)
			return h, nil
		},
		Merge: func(a, b *Histogram[N]) (*Histogram[N], error) {
			a.merge(b)
			return a, nil
		},
		Result: same[*Histogram[N]],
	}
}

// HyperLogLog estimates how many different elements it was given (Flajolet,
// Fusy, Gandouet, Meunier 2007). Its registers are hit by hashes of elements;
// each holds the greatest rank of those that fell to it. 2¹² of them make
// for a standard error of 1.6 %.
type HyperLogLog [1 << hllBits]uint8

const hllBits = 12

func (r *HyperLogLog) add(hash uint64) {
	at := hash >> (64 - hllBits)
	rank := uint8(bits.LeadingZeros64(hash<<hllBits|1<<(hllBits-1)) + 1)
	r[at] = max(r[at], rank)
}

func (r *HyperLogLog) estimate() int64 {
	const m = 1 << hllBits
	sum, empty := 0.0, 0
	for _, rank := range r {
		sum += math.Ldexp(1, -int(rank))
		if rank == 0 {
			empty++
		}
	}
	raw := 0.7213 / (1 + 1.079/m) * m * m / sum
	if raw <= 2.5*m && empty > 0 {
		raw = m * math.Log(m/float64(empty)) // few: count the registers that were hit
	}
	return int64(math.Round(raw))
}

// Cardinality estimates how many different elements there are, in 4 KiB of
// memory: two times out of three it is off by less than 1.6 %. hash must spread
// elements evenly over all 64 bits, as [HashInt] and [HashString] do.
func Cardinality[T any](hash func(T) uint64) Agg[T, *HyperLogLog, int64] {
	return Agg[T, *HyperLogLog, int64]{
		Name: "cardinality",
		New:  func() *HyperLogLog { return new(HyperLogLog) },
		Add: func(r *HyperLogLog, x T) (*HyperLogLog, error) {
			r.add(hash(x))
			return r, nil
		},
		AddN: func(r *HyperLogLog, x T, _ int64) (*HyperLogLog, error) {
			r.add(hash(x))
			return r, nil
		},
		Merge: func(a, b *HyperLogLog) (*HyperLogLog, error) {
			for k := range a {
				a[k] = max(a[k], b[k])
			}
			return a, nil
		},
		Result: func(r *HyperLogLog) (int64, error) { return r.estimate(), nil },
	}
}

// HashInt hashes an integer: the same way in every process, so that estimates
// can be compared. (The finalizer of SplitMix64.)
func HashInt[N ~int64](v N) uint64 {
	x := uint64(v) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// HashString hashes a text, the same way in every process. (FNV-1a, finalized.)
func HashString(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return HashInt(int64(h))
}

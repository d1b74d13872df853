package workload

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/folds/elle/listappend"
	"github.com/jepsentest/go/folds/stats"
	"github.com/jepsentest/go/histories"
)

// AppendOptions shape the transactions of [Append]. The zero value is a good choice.
type AppendOptions struct {
	// KeyCount is the number of keys that are in use at any time; 0 means 10.
	KeyCount int
	// MinLength and MaxLength bound the number of micro-operations of a
	// transaction; 0 means 1 and 4.
	MinLength, MaxLength int
	// MaxWritesPerKey bounds the number of appends to a key, after which a new
	// key takes its place; 0 means 256. Each key's own bound is drawn, small
	// ones being likelier: short lists are checked fastest, long ones show most.
	MaxWritesPerKey int
	// Anomalies are those that the history is checked for; nil means all that
	// package listappend knows.
	Anomalies []string
}

func (o AppendOptions) withDefaults() AppendOptions {
	or := func(p *int, def int) {
		if *p <= 0 {
			*p = def
		}
	}
	or(&o.KeyCount, 10)
	or(&o.MinLength, 1)
	or(&o.MaxLength, 4)
	or(&o.MaxWritesPerKey, 256)
	o.MaxLength = max(o.MaxLength, o.MinLength)
	return o
}

// finalBatch is the number of keys that one final transaction reads.
const finalBatch = 8

// Append is the list-append workload: transactions (f "txn") of appends of
// unique integers and reads, over a few keys of which each is twice as likely
// as the one before. The final phase reads every key that was used.
//
// A client gets a value of kind Txn and completes it with the same
// micro-operations, in which reads have their result: a list, or nil for a key
// that does not exist. Keys are integers. What the checks find is listed in
// package listappend.
func Append(o AppendOptions) Workload {
	o = o.withDefaults()
	highest := new(atomic.Int64)
	g := &appendGen{o: o, highest: highest}
	for k := range o.KeyCount {
		g.slots = append(g.slots, slot{key: int64(k)})
	}
	g.next = int64(o.KeyCount)
	return Workload{
		Generator: g,
		Final:     dsl.Lazy(func() dsl.Generator { return finalReads(highest.Load()) }),
		Checkers:  []folds.Checker{stats.Checker(), listappend.Checker(o.Anomalies...)},
	}
}

func finalReads(highest int64) dsl.Generator {
	var gs []dsl.Generator
	for from := int64(0); from <= highest; from += finalBatch {
		var mops []histories.Mop
		for k := from; k < min(from+finalBatch, highest+1); k++ {
			mops = append(mops, histories.Read(histories.Int(k)))
		}
		gs = append(gs, dsl.UntilOK(dsl.ConcurrencyLimit(1, dsl.Limit(finalTries, dsl.Repeat(dsl.Invocation("txn", histories.Txn(mops...)))))))
	}
	return dsl.Seq(gs...)
}

// finalTries is how often a final transaction is tried before it is given up.
const finalTries = 10

// slot is one of the keys in use. The zero values of left and value mean that
// the key is new: its bound has not been drawn yet.
type slot struct {
	key   int64
	value int64 // the last value that was appended
	left  int64 // how many more appends it may take
}

// appendGen generates transactions. Like the generators of package dsl it takes
// turns with a twin, so that generating allocates nothing but the memory of many
// transactions at a time. Beside that it only records which keys have been used.
type appendGen struct {
	o       AppendOptions
	slots   []slot
	next    int64           // the next new key
	free    []histories.Mop // memory for the micro-operations to come
	highest *atomic.Int64
	other   *appendGen // nil in the state that the test has
}

// mopsAtOnce is how many micro-operations share a piece of memory, which is kept
// as long as any of them is.
const mopsAtOnce = 512

// successor returns the place for the successor of g: a twin that nobody needs
// any more, or a new one.
func (g *appendGen) successor(ctx dsl.Context) *appendGen {
	if g.other != nil && ctx.MayReuse() {
		return g.other
	}
	n, twin := *g, *g
	n.slots, twin.slots = slices.Clone(g.slots), slices.Clone(g.slots)
	n.other, twin.other = &twin, &n
	return &n
}

func (g *appendGen) Op(ctx dsl.Context) dsl.Offer {
	if _, ok := ctx.SomeFree(); !ok {
		return dsl.Offer{State: dsl.Pending}
	}
	rng := ctx.Rand()
	next := g.successor(ctx)
	copy(next.slots, g.slots)
	next.next = g.next
	length := g.o.MinLength
	if g.o.MaxLength > length {
		length += rng.IntN(g.o.MaxLength - length + 1)
	}
	free := g.free
	switch {
	case !ctx.MayReuse():
		free = make([]histories.Mop, length)
	case len(free) < length:
		free = make([]histories.Mop, max(length, mopsAtOnce))
		if g.other != nil {
			g.free = free // the next question needs it too
		}
	}
	mops := free[:length:length]
	next.free = free[length:]
	for i := range mops {
		s := &next.slots[exponential(rng, len(next.slots))]
		if rng.Uint64()&1 == 0 {
			mops[i] = histories.Read(histories.Int(s.key))
			continue
		}
		if s.left == 0 {
			if s.value > 0 {
				*s = slot{key: next.next}
				next.next++
			}
			s.left = int64(zipf(rng, g.o.MaxWritesPerKey)) + 1
		}
		s.value++
		s.left--
		mops[i] = histories.Append(histories.Int(s.key), histories.Int(s.value))
	}
	op, _ := ctx.Fill(dsl.Op{F: "txn", Value: histories.Txn(mops...)})
	return dsl.Offer{State: dsl.Ready, Op: op, Next: next}
}

func (g *appendGen) Update(_ dsl.Context, ev *histories.Op) dsl.Generator {
	if ev.Type != histories.Invoke {
		return g
	}
	mops, _ := ev.Value.Txn()
	for i := range mops {
		if k, ok := mops[i].Key.Int(); ok && k > g.highest.Load() {
			g.highest.Store(k)
		}
	}
	return g
}

// exponential draws one of n, each twice as likely as the one before.
func exponential(rng *rand.Rand, n int) int {
	// A number of 1 … 2ⁿ−1 has k binary digits with a chance in proportion to
	// 2ᵏ. Beyond 63 digits, those that are left out would never be seen.
	digits := min(n, 63)
	x := 1 + rng.Uint64N(1<<digits-1)
	return n - digits + bits.Len64(x) - 1
}

// zipf draws one of n, i with a chance in proportion to 1/(i+1).
func zipf(rng *rand.Rand, n int) int {
	// The distribution function is close to log(i+1)/log(n+1).
	return min(int(math.Exp(rng.Float64()*math.Log(float64(n+1))))-1, n-1)
}

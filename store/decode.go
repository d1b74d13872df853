package store

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/jepsentest/go/histories"
)

// This file decodes the columns of a chunk; encode.go is the inverse.

// unpack tells, for a byte of packed codes of 2 bits, the four codes.
var unpack2 = func() (t [256][4]byte) {
	for i := range t {
		for j := range t[i] {
			t[i][j] = byte(i >> (2 * j) & 3)
		}
	}
	return t
}()

// decodeTypes decodes a column of 2 bits an operation, at a few bytes a
// nanosecond: a fold that counts types does little else.
func decodeTypes[T ~uint8](data []byte, out []T) error {
	if len(data) != (len(out)+3)/4 {
		return fmt.Errorf("%w: %d bytes for %d operations", ErrCorrupt, len(data), len(out))
	}
	i := 0
	for ; i+4 <= len(out); i += 4 {
		four := &unpack2[data[i/4]]
		o := out[i : i+4 : i+4]
		o[0], o[1], o[2], o[3] = T(four[0]), T(four[1]), T(four[2]), T(four[3])
	}
	for ; i < len(out); i++ {
		out[i] = T(unpack2[data[i/4]][i%4])
	}
	return nil
}

func decodePhases(data []byte, out []histories.Phase) error {
	if err := decodeTypes(data, out); err != nil {
		return err
	}
	for _, p := range out {
		if p > histories.End {
			return fmt.Errorf("%w: unknown %v", ErrCorrupt, p)
		}
	}
	return nil
}

// link is an operation whose invocation is in an earlier chunk.
type link struct {
	inv int64 // position of the invocation
	at  int32 // number of the completion in its chunk
}

// decodeWho decodes the processes and, into pairs, the pairing: the distance
// from a completion to its invocation (negative) and back (positive), 0 where
// there is no other entry in this chunk. The completions of what was invoked
// before the chunk are returned, sorted by invocation.
func decodeWho(data []byte, first int64, types []histories.Type, procs []histories.Process, pairs []int32) ([]link, error) {
	c := cursor{b: data}
	var links []link
	for i, t := range types {
		var back uint64
		if t != histories.Invoke {
			back = c.uint()
		}
		if back > 0 && back <= uint64(i) {
			inv := i - int(back)
			procs[i] = procs[inv]
			pairs[i], pairs[inv] = int32(inv-i), int32(i-inv)
			continue
		}
		if back > 0 {
			if back > uint64(first)+uint64(i) {
				c.fail("completes what was before the history")
				break
			}
			links = append(links, link{first + int64(i) - int64(back), int32(i)})
		}
		procs[i] = histories.Process(c.int())
		if c.bad != "" {
			break
		}
	}
	slices.SortFunc(links, func(a, b link) int { return cmp.Compare(a.inv, b.inv) })
	return links, c.finish()
}

func decodeDiffs[T ~int64](data []byte, out []T) error {
	c := cursor{b: data}
	var last int64
	for i := range out {
		last += c.int()
		out[i] = T(last)
	}
	return c.finish()
}

func decodeTimes(data []byte, out []time.Duration) error { return decodeDiffs(data, out) }

// decodeFNames decodes the dictionary of f's, and leaves c at the codes.
func decodeFNames(c *cursor) []string {
	names := make([]string, 0, min(c.count(1), maxChunkOps))
	for range cap(names) {
		names = append(names, c.str())
	}
	if len(names) == 0 {
		c.fail("no f")
	}
	return names
}

func decodeFs(data []byte, out []uint32) ([]string, error) {
	c := cursor{b: data}
	names := decodeFNames(&c)
	if c.bad != "" || len(names) == 1 {
		return names, c.finish()
	}
	bits := bitsFor(len(names))
	size := 2 * len(out)
	if bits > 0 {
		size = (len(out)*bits + 7) / 8
	}
	codes := c.bytes(size)
	if err := c.finish(); err != nil {
		return nil, err
	}
	if bits == 0 {
		for i := range out {
			out[i] = uint32(binary.LittleEndian.Uint16(codes[2*i:]))
		}
	} else {
		per, mask := 8/bits, byte(1<<bits-1)
		for i := range out {
			out[i] = uint32(codes[i/per] >> (i % per * bits) & mask)
		}
	}
	for _, code := range out {
		if int(code) >= len(names) {
			return nil, fmt.Errorf("%w: f %d of %d", ErrCorrupt, code, len(names))
		}
	}
	return names, nil
}

// decodeRare calls elem for each operation that has an element.
func decodeRare(d *valueDecoder, n int, elem func(i int)) error {
	next := uint64(0)
	for d.left() > 0 && d.bad == "" {
		i := next + d.upTo(maxChunkOps)
		if i >= uint64(n) {
			d.fail("more elements than operations")
			break
		}
		elem(int(i))
		next = i + 1
	}
	return d.finish()
}

func decodeErrors(data []byte, opts valueOptions, out []histories.Value) error {
	d := valueDecoder{cursor: cursor{b: data}, valueOptions: opts, loose: true, budget: maxDecoded}
	return decodeRare(&d, len(out), func(i int) { out[i] = d.plain(0) })
}

func decodeExtra(data []byte, opts valueOptions, out [][]histories.Field) error {
	d := valueDecoder{cursor: cursor{b: data}, valueOptions: opts, loose: true, budget: maxDecoded}
	var fields slab[histories.Field]
	return decodeRare(&d, len(out), func(i int) {
		out[i] = take(&d, &fields, d.count(2))
		for j := range out[i] {
			if d.bad != "" {
				break
			}
			out[i][j] = histories.Field{Name: d.text(), Value: d.plain(0)}
		}
	})
}

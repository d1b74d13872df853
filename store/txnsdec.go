package store

import (
	"encoding/binary"

	"github.com/jepsentest/go/histories"
)

// This file decodes the column of values of a chunk; txns.go is the inverse.

// column decodes the values of a chunk into out.
func (d *valueDecoder) column(data []byte, out []histories.Value) error {
	if err := d.open(data, len(out), false); err != nil {
		return err
	}
	d.run(out, len(out))
	return d.finish()
}

// columnUpTo decodes the first n values of a chunk. The others stay nil. What
// it decodes is overwritten when it is called again.
func (d *valueDecoder) columnUpTo(data []byte, out []histories.Value, n int) error {
	if err := d.open(data, len(out), true); err != nil {
		return err
	}
	d.run(out, n)
	return d.err()
}

func (d *valueDecoder) run(out []histories.Value, n int) {
	for i := range out[:n] {
		out[i] = d.next(i, out)
		if d.bad != "" {
			break
		}
	}
}

// open reads the trailer and allocates what it announces, or uses the memory
// of the time before again.
func (d *valueDecoder) open(data []byte, n int, again bool) error {
	c := cursor{b: data}
	if len(data) < 4 {
		c.fail("ends early")
		return c.err()
	}
	end := len(data) - 4
	size := int64(binary.LittleEndian.Uint32(data[end:]))
	if size > int64(end) {
		c.fail("trailer longer than the column")
		return c.err()
	}
	stream := end - int(size)
	c = cursor{b: data[stream:end]}
	var num [6]int
	for i := range num {
		num[i] = int(c.upTo(maxDecoded))
	}
	mops, vals, entries, ints, keys, chains := num[0], num[1], num[2], num[3], num[4], num[5]
	// Every key and every chain takes a byte of the stream at least.
	if keys > stream || chains > stream || chains > c.left() {
		c.fail("impossible counts")
	}
	if err := c.err(); err != nil {
		return err
	}
	d.chains = growTo(d.chains, chains)
	total := 0
	for i := range d.chains {
		l := int(c.upTo(uint64(stream)))
		total += l
		d.chains[i] = decodedChain{n: l} // the memory follows
		if total > stream {
			c.fail("chains longer than the column")
		}
		if c.bad != "" {
			break
		}
	}
	d.memory = mops*sizeMop + vals*sizeValue + entries*sizeEntry + (ints+total)*8
	if d.memory > maxDecoded {
		c.fail("column takes too much memory")
	}
	if err := c.finish(); err != nil {
		return err
	}
	elems := d.elems.get(total, again)
	for i := range d.chains {
		l := d.chains[i].n
		d.chains[i] = decodedChain{elems: elems[:l:l]}
		elems = elems[l:]
	}
	d.mops.free = d.mops.get(mops, again)
	d.vals.free = d.vals.get(vals, again)
	d.entries.free = d.entries.get(entries, again)
	d.ints.free = d.ints.get(ints, again)
	d.keys = growTo(d.keys, keys)[:0]
	d.keyOf = growTo(d.keyOf, mops)[:0]
	d.mopAt = growTo(d.mopAt, n)[:0]
	d.cursor = cursor{b: data[:stream]}
	d.live, d.solo, d.usesText, d.loose = 0, -1, false, false
	return nil
}

// release forgets what was handed out, so that a decoder that waits for its
// next use does not keep it alive.
func (d *valueDecoder) release() {
	d.cursor, d.valueOptions = cursor{}, valueOptions{}
	d.mops.free, d.vals.free, d.entries.free, d.ints.free = nil, nil, nil, nil
	clear(d.chains)
	clear(d.keys[:cap(d.keys)])
}

func growTo[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// next decodes the value of operation i.
func (d *valueDecoder) next(i int, out []histories.Value) histories.Value {
	tag := d.byte()
	at := int32(-1)
	var v histories.Value
	switch {
	case tag >= tagLikeNear:
		at = int32(len(d.keyOf))
		v = d.like(i, int(tag-tagLikeNear)+1, out)
	case tag == tagLike:
		at = int32(len(d.keyOf))
		v = d.like(i, int(d.upTo(maxChunkOps)), out)
	case tag >= tagColTxn && tag <= tagColTxn+15:
		at = int32(len(d.keyOf))
		n := int(tag - tagColTxn)
		if n == 15 {
			n = d.count(1)
		}
		v = d.txn(n)
	case tag == tagChain:
		v = d.chain(&d.solo, d.uint())
	case tag == tagKeyTuple:
		_, k, key := d.head()
		if d.pos < len(d.b) && d.b[d.pos] == tagChain && k != noKey {
			d.pos++
			v = d.tuple(key, d.chain(&d.keys[k].chain, d.uint()))
		} else {
			v = d.tuple(key, d.plain(0))
		}
	default:
		if d.pos > 0 {
			d.pos--
		}
		v = d.plain(0)
	}
	d.mopAt = append(d.mopAt, at)
	return v
}

// head decodes the byte that introduces a micro-operation, with its key.
func (d *valueDecoder) head() (high byte, k uint32, key histories.Value) {
	b := d.byte()
	back := int(b & 15)
	switch back {
	case keyInline:
		return b, noKey, d.plain(0)
	case keyNew:
		key = d.plain(0)
		if len(d.keys) == cap(d.keys) {
			d.fail("more keys than announced")
			return b, noKey, key
		}
		d.keys = append(d.keys, decodedKey{value: key, chain: -1})
		return b, uint32(len(d.keys) - 1), key
	case keyFar:
		back = int(d.upTo(maxDecoded))
	}
	if back >= len(d.keys) {
		d.fail("reference to a key that is not there")
		return b, noKey, key
	}
	k = uint32(len(d.keys) - 1 - back)
	return b, k, d.keys[k].value
}

func (d *valueDecoder) txn(n int) histories.Value {
	mops := d.mops.take(&d.cursor, n)
	for i := range mops {
		high, k, key := d.head()
		m := &mops[i]
		m.Kind, m.Key = histories.MopKind(high>>6), key
		switch high >> 4 & 3 {
		case formNil:
			m.Value = histories.Value{} // the memory may have been used
		case formInt:
			m.Value = d.since(k)
		case formCoded:
			m.Value = d.coded(k)
		default:
			d.fail("unknown form of micro-operation")
		}
		d.keyOf = append(d.keyOf, k)
		if d.bad != "" {
			break
		}
	}
	return histories.Txn(mops...)
}

// like decodes a transaction like that of the operation back before i, whose
// nil values are filled in.
func (d *valueDecoder) like(i, back int, out []histories.Value) histories.Value {
	j := i - back
	if back < 1 || j < 0 || d.mopAt[j] < 0 {
		d.fail("reference to a transaction that is not there")
		return histories.Value{}
	}
	from, _ := out[j].Txn()
	mops := d.mops.take(&d.cursor, len(from))
	if mops == nil {
		return histories.Txn()
	}
	copy(mops, from)
	keys := d.keyOf[d.mopAt[j]:]
	for x := range mops {
		k := keys[x]
		if m := &mops[x]; m.Value.IsNil() {
			m.Value = d.coded(k)
		}
		d.keyOf = append(d.keyOf, k)
		if d.bad != "" {
			break
		}
	}
	return histories.Txn(mops...)
}

func (d *valueDecoder) since(k uint32) histories.Value {
	if k == noKey {
		d.fail("difference without a key")
		return histories.Value{}
	}
	last := &d.keys[k].last
	*last += d.int()
	return histories.Int(*last)
}

func (d *valueDecoder) coded(k uint32) histories.Value {
	code := d.uint()
	switch code {
	case codeNil:
		return histories.Value{}
	case codeInt:
		return d.since(k)
	case codePlain:
		return d.plain(0)
	}
	if k == noKey {
		d.fail("chain without a key")
		return histories.Value{}
	}
	return d.chain(&d.keys[k].chain, code)
}

// chain decodes a list that begins a chain or refers to one, of which it may
// be longer. All lists of a chain share its memory.
func (d *valueDecoder) chain(at *int32, code uint64) histories.Value {
	if code == codeFresh {
		if d.live == len(d.chains) {
			d.fail("more chains than announced")
			return histories.Value{}
		}
		*at = int32(d.live)
		d.live++
	}
	if *at < 0 || code < codeFresh || code > codeFresh && code < codeChain {
		d.fail("reference to a chain that is not there")
		return histories.Value{}
	}
	c := &d.chains[*at]
	var n int64
	if code == codeFresh {
		n = int64(d.upTo(uint64(len(c.elems))))
	} else {
		n = int64(c.n) + unzigzag(code-codeChain)
	}
	if n < 0 || n > int64(len(c.elems)) {
		d.fail("list longer than its chain")
		return histories.Value{}
	}
	if int(n) > c.n {
		var last int64
		if c.n > 0 {
			last = c.elems[c.n-1]
		}
		d.diffs(last, c.elems[c.n:n])
		c.n = int(n)
	}
	return histories.Ints(c.elems[:n:n]...)
}

package store

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jepsentest/go/histories"
)

// decoded is a chunk as far as it has been decoded. It is never changed: to
// add columns, a new one is made that shares those that are there.
type decoded struct {
	histories.Chunk
	pairs []int32 // see decodeWho; with ColProcess
	links []link
	size  int64 // bytes of memory
	// upTo is how many values are needed; 0 means all. If it is not 0, all
	// columns stand in the scratch memory, and must be copied out of it.
	upTo int
}

// chunkCell is the place of a chunk in the cache. Whoever needs columns that
// are missing decodes them under the lock, so that no column is decoded twice
// because two wanted it at once.
type chunkCell struct {
	mu     sync.Mutex
	now    atomic.Pointer[decoded]
	looked atomic.Bool // an operation was read on its own
}

// columnOf tells which column holds a field.
var columnOf = [...]struct {
	field  histories.Columns
	column columnID
}{
	{histories.ColType, colType},
	{histories.ColPhase, colPhase},
	{histories.ColProcess, colWho},
	{histories.ColTime, colTime},
	{histories.ColF, colF},
	{histories.ColIndex, colIndex},
	{histories.ColError, colError},
	{histories.ColExtra, colExtra},
	{histories.ColValue, colValue},
}

// chunk returns chunk i with at least the given columns.
func (f *File) chunk(i int, cols histories.Columns) (*decoded, error) {
	e, err := f.entry(i)
	if err != nil {
		return nil, err
	}
	if cols.Has(histories.ColProcess) {
		cols |= histories.ColType // without which processes cannot be decoded
	}
	cols &= histories.AllColumns
	it, cell, err := f.cell(i, e)
	if err != nil {
		return nil, err
	}
	old := cell.now.Load()
	if old == nil || !old.Have.Has(cols) {
		cell.mu.Lock()
		defer cell.mu.Unlock()
		old = cell.now.Load()
	}
	if old != nil && (old.Number != i || old.First != e.first || old.Len() != e.n) {
		// Two entries of a forged directory refer to the same columns.
		return nil, f.damaged(fmt.Errorf("%w: it is also chunk %d", ErrCorrupt, old.Number), e.off, fmt.Sprintf("chunk %d", i))
	}
	if old != nil && old.Have.Has(cols) {
		return old, nil
	}
	d := new(decoded)
	if old != nil {
		*d = *old
	} else {
		d.Number, d.First = i, e.first
		d.SetLen(e.n)
	}
	before := d.size
	size := f.state.Load().size
	if err := f.decode(d, e, cols&^d.Have, size); err != nil {
		if old == nil {
			f.cache.remove(it)
		}
		return nil, fmt.Errorf("read history: %w", withPath(err, f.path))
	}
	cell.now.Store(d)
	f.cache.grow(it, d.size-before+int64(cellOverhead))
	return d, nil
}

// cell returns the place of chunk i in the cache.
func (f *File) cell(i int, e *entry) (*cached, *chunkCell, error) {
	it := f.cache.get(cacheKey{f.ident, e.off}, func() any { return new(chunkCell) })
	cell, ok := it.value.(*chunkCell)
	if !ok {
		return nil, nil, f.damaged(fmt.Errorf("%w: a chunk where a directory node is", ErrCorrupt), e.off, fmt.Sprintf("chunk %d", i))
	}
	return it, cell, nil
}

// op returns the operation at pos, of chunk i. The values of a chunk must be
// decoded in order: the first time that an operation of a chunk is wanted, they
// are decoded as far as it stands, and forgotten; from the second time on the
// chunk is decoded and cached as a whole.
func (f *File) op(i int, pos int64) (histories.Op, error) {
	e, err := f.entry(i)
	if err != nil {
		return histories.Op{}, err
	}
	it, cell, err := f.cell(i, e)
	if err != nil {
		return histories.Op{}, err
	}
	if cell.now.Load() != nil || cell.looked.Swap(true) {
		d, err := f.chunk(i, histories.AllColumns)
		if err != nil {
			return histories.Op{}, err
		}
		return d.Op(int(pos - d.First)), nil
	}
	f.cache.grow(it, cellOverhead)
	d := &decoded{upTo: int(pos-e.first) + 1}
	d.Number, d.First = i, e.first
	d.SetLen(e.n)
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	if err := f.decodeIn(s, d, e, histories.AllColumns, f.state.Load().size); err != nil {
		return histories.Op{}, fmt.Errorf("read history: %w", withPath(err, f.path))
	}
	op := d.Op(int(pos - e.first))
	op.Value, op.Error = op.Value.Clone(), op.Error.Clone()
	op.Extra = slices.Clone(op.Extra)
	for j := range op.Extra {
		op.Extra[j].Name = strings.Clone(op.Extra[j].Name)
		op.Extra[j].Value = op.Extra[j].Value.Clone()
	}
	s.values.release()
	return op, nil
}

// cellOverhead is about what a chunk takes in the cache besides its columns.
const cellOverhead = 512

// scratch is memory that decoding needs and gives back.
type scratch struct {
	read   []byte
	raw    []byte
	values valueDecoder

	// The columns of a chunk of which one operation is wanted.
	types  []histories.Type
	phases []histories.Phase
	procs  []histories.Process
	pairs  []int32
	times  []time.Duration
	fs     []uint32
	index  []int64
	errors []histories.Value
	extra  [][]histories.Field
	vals   []histories.Value
}

// room returns the memory of a column of d: new, or buf if it is scratch.
func room[T any](d *decoded, buf *[]T) []T {
	n := d.Len()
	if d.upTo == 0 {
		return make([]T, n)
	}
	*buf = growTo(*buf, n)
	clear(*buf)
	return *buf
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// decode adds the missing columns to d. Columns that lie next to each other
// are read at once.
func (f *File) decode(d *decoded, e *entry, missing histories.Columns, size int64) error {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	return f.decodeIn(s, d, e, missing, size)
}

func (f *File) decodeIn(s *scratch, d *decoded, e *entry, missing histories.Columns, size int64) error {
	for i := 0; i < len(columnOf); {
		run := i
		var length int64
		for run < len(columnOf) && (missing.Has(columnOf[run].field) || run > i && e.lens[columnOf[run].column] == 0) {
			length += int64(e.lens[columnOf[run].column])
			run++
		}
		if run == i {
			i++
			continue
		}
		start, _ := e.column(columnOf[i].column)
		buf, err := readRaw(f.dev, size, start.off, length, s.read)
		if err != nil {
			return corruptAt(err, start.off, fmt.Sprintf("%v column of chunk %d", columnOf[i].column, d.Number))
		}
		s.read = buf
		for off := start.off; i < run; i++ {
			c := columnOf[i]
			n := int(e.lens[c.column])
			if missing.Has(c.field) {
				if err := d.add(f, s, e, c.column, buf[:n:n], off); err != nil {
					return corruptAt(err, off, fmt.Sprintf("%v column of chunk %d", c.column, d.Number))
				}
				d.Have |= c.field
			}
			buf, off = buf[n:], off+int64(n)
		}
	}
	return nil
}

// add decodes one column from its block, which is empty if it is absent.
func (d *decoded) add(f *File, s *scratch, e *entry, c columnID, block []byte, off int64) error {
	n := d.Len()
	if len(block) == 0 {
		switch c {
		case colPhase, colError, colExtra:
			return nil
		case colIndex:
			if e.dense {
				return nil
			}
		}
		return fmt.Errorf("%w: there is none", ErrCorrupt)
	}
	h, stored, err := openBlock(block, off, blockColumn)
	if err != nil {
		return err
	}
	if c == colError || c == colExtra {
		s.raw = nil // these always refer to the encoded bytes
	}
	data, err := decompress(s.raw, h, stored)
	if err != nil {
		return err
	}
	if h.codec != codecRaw {
		s.raw = data
	}
	keep := false // whether something refers to data
	switch c {
	case colType:
		d.Type = room(d, &s.types)
		d.size += int64(n)
		err = decodeTypes(data, d.Type)
	case colPhase:
		d.Phase = room(d, &s.phases)
		d.size += int64(n)
		err = decodePhases(data, d.Phase)
	case colWho:
		d.Process, d.pairs = room(d, &s.procs), room(d, &s.pairs)
		d.size += int64(n) * 12
		d.links, err = decodeWho(data, d.First, d.Type, d.Process, d.pairs)
	case colTime:
		d.Time = room(d, &s.times)
		d.size += int64(n) * 8
		err = decodeTimes(data, d.Time)
	case colF:
		d.F = room(d, &s.fs)
		d.size += int64(n) * 4
		d.Fs, err = decodeFs(data, d.F)
	case colIndex:
		d.Index = room(d, &s.index)
		d.size += int64(n) * 8
		err = decodeDiffs(data, d.Index)
	case colError:
		d.Error, keep = room(d, &s.errors), true
		d.size += int64(n*sizeValue + len(data)*decodedFactor)
		err = decodeErrors(data, f.values, d.Error)
	case colExtra:
		d.Extra, keep = room(d, &s.extra), true
		d.size += int64(n*sizeValue + len(data)*decodedFactor)
		err = decodeExtra(data, f.values, d.Extra)
	case colValue:
		d.Value = room(d, &s.vals)
		v := &s.values
		v.valueOptions = f.values
		if d.upTo > 0 {
			// Nothing is decoded after it, and the one value will be copied.
			return v.columnUpTo(data, d.Value, d.upTo)
		}
		err = v.column(data, d.Value)
		keep = v.usesText
		d.size += int64(n*sizeValue + v.memory)
		if keep {
			d.size += int64(len(data))
		}
		v.release()
	}
	if keep && h.codec == codecRaw {
		s.read = nil
	} else if keep {
		s.raw = nil
	}
	return err
}

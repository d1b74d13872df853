package histories

// Pairer finds out which entries of a history belong together, one entry at a
// time and in bounded memory: it remembers the operations that are open now.
//
// A client's completion closes its invocation. The entries of a named process
// pair up one after the other; where they say [Begin] and [End] they must
// alternate. The zero Pairer is ready for use at the beginning of a history.
type Pairer struct {
	open openOps
}

// Add takes the next entry, which stands at position pos. If the entry
// completes an operation, Add returns the position of its invocation and true.
// The error is [ErrDoubleInvoke] or [ErrNotInvoked]; the Pairer stays usable: a
// second invocation takes the place of the first, which is never completed.
func (p *Pairer) Add(pos int64, process Process, typ Type, phase Phase) (invocation int64, ok bool, err error) {
	at, isOpen := p.open.find(process)
	begins := typ == Invoke || phase == Begin
	if !process.IsClient() && typ == Info && phase == NoPhase {
		begins = !isOpen // a history that does not say: they alternate
	}
	switch {
	case begins && isOpen:
		inv := p.open.slots[at].pos
		p.open.slots[at].pos = pos
		return inv, false, ErrDoubleInvoke
	case begins:
		p.open.insert(at, process, pos)
		return noPartner, false, nil
	case !isOpen:
		return noPartner, false, ErrNotInvoked
	}
	inv := p.open.slots[at].pos
	p.open.remove(at)
	return inv, true, nil
}

// Open returns the number of operations that have been invoked and not completed.
func (p *Pairer) Open() int { return p.open.n }

// EachOpen calls yield for each open operation, in no particular order.
func (p *Pairer) EachOpen(yield func(process Process, invocation int64)) {
	for _, s := range p.open.slots {
		if s.used {
			yield(s.process, s.pos)
		}
	}
}

// openOps is a hash table from processes to the positions of their open
// invocations: linear probing, at most half full. Few operations are open at a
// time, and their processes are mostly consecutive numbers, so the number
// itself, cut to the size of the table, is a good hash.
type openOps struct {
	slots []openOp // a power of two of them
	n     int
}

type openOp struct {
	process Process
	pos     int64
	used    bool
}

// find returns the slot of a process, or the one in which it would be put.
func (t *openOps) find(p Process) (at int, ok bool) {
	if len(t.slots) == 0 {
		t.slots = make([]openOp, 64)
	}
	mask := len(t.slots) - 1
	for i := int(p) & mask; ; i = (i + 1) & mask {
		if s := &t.slots[i]; !s.used || s.process == p {
			return i, s.used
		}
	}
}

// insert puts a process into the slot that find returned.
func (t *openOps) insert(at int, p Process, pos int64) {
	t.slots[at] = openOp{p, pos, true}
	t.n++
	if 2*t.n <= len(t.slots) {
		return
	}
	old := t.slots
	t.slots = make([]openOp, 2*len(old))
	for _, s := range old {
		if s.used {
			i, _ := t.find(s.process)
			t.slots[i] = s
		}
	}
}

// remove empties a slot, and moves up those behind it that probing would not
// find any more.
func (t *openOps) remove(hole int) {
	mask := len(t.slots) - 1
	for i := (hole + 1) & mask; t.slots[i].used; i = (i + 1) & mask {
		home := int(t.slots[i].process) & mask
		if (i-home)&mask >= (i-hole)&mask {
			t.slots[hole] = t.slots[i]
			hole = i
		}
	}
	t.slots[hole] = openOp{}
	t.n--
}

// noPartner marks, in a pair index, an operation without one.
const noPartner = -1

// pairIndex computes, for every position of a source, the position of the
// other entry of the same operation. It stops at the first malformed entry.
func pairIndex(s Source) ([]int64, error) {
	var p Pairer
	pairs := make([]int64, 0, SourceLen(s))
	for i := range s.NumChunks() {
		c, err := s.ReadChunk(i, ColProcess|ColType|ColPhase)
		if err != nil {
			return nil, err
		}
		for j := range c.Len() {
			pos := c.First + int64(j)
			inv, ok, err := p.Add(pos, c.Process[j], c.Type[j], c.PhaseAt(j))
			if err != nil {
				return nil, opErrorAt(s, pos, err)
			}
			if !ok {
				pairs = append(pairs, noPartner)
				continue
			}
			pairs = append(pairs, inv)
			pairs[inv] = pos
		}
	}
	return pairs, nil
}

// opErrorAt wraps err with the operation at pos, read as far as it can be.
func opErrorAt(s Source, pos int64, err error) error {
	e := &OpError{Pos: pos, Err: err}
	c, readErr := s.ReadChunk(s.Locate(pos), AllColumns)
	if readErr == nil {
		e.Op = c.Op(int(pos - c.First))
	}
	return e
}

// Check reads the whole history and returns the first thing that is wrong with
// it as an [*OpError]: indices that do not increase, or an entry that does not
// pair up. It takes memory for the open operations only. Operations that never
// complete are no error: a test may end, or crash, before they do.
func Check(s Source) error {
	var p Pairer
	last := int64(-1)
	for i := range s.NumChunks() {
		c, err := s.ReadChunk(i, ColIndex|ColProcess|ColType|ColPhase)
		if err != nil {
			return err
		}
		for j := range c.Len() {
			pos := c.First + int64(j)
			if c.IndexAt(j) <= last {
				return opErrorAt(s, pos, ErrIndex)
			}
			last = c.IndexAt(j)
			if _, _, err := p.Add(pos, c.Process[j], c.Type[j], c.PhaseAt(j)); err != nil {
				return opErrorAt(s, pos, err)
			}
		}
	}
	return nil
}

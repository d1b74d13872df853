package histories

// Pairer finds out which entries of a history belong together, one entry at a
// time and in bounded memory: it remembers the operations that are open now.
//
// A client's completion closes its invocation. The entries of a named process
// pair up one after the other; where they say [Begin] and [End] they must
// alternate. The zero Pairer is ready for use at the beginning of a history.
type Pairer struct {
	open map[Process]int64 // process → position of its open invocation
}

// Add takes the next entry, which stands at position pos. If the entry
// completes an operation, Add returns the position of its invocation and true.
// The error is [ErrDoubleInvoke] or [ErrNotInvoked]; the Pairer stays usable: a
// second invocation takes the place of the first, which is never completed.
func (p *Pairer) Add(pos int64, process Process, typ Type, phase Phase) (invocation int64, ok bool, err error) {
	if p.open == nil {
		p.open = make(map[Process]int64)
	}
	inv, isOpen := p.open[process]
	begins := typ == Invoke || phase == Begin
	if !process.IsClient() && typ == Info && phase == NoPhase {
		begins = !isOpen // a history that does not say: they alternate
	}
	switch {
	case begins:
		p.open[process] = pos
		if isOpen {
			return inv, false, ErrDoubleInvoke
		}
		return -1, false, nil
	case !isOpen:
		return -1, false, ErrNotInvoked
	}
	delete(p.open, process)
	return inv, true, nil
}

// Open returns the number of operations that have been invoked and not completed.
func (p *Pairer) Open() int { return len(p.open) }

// EachOpen calls yield for each open operation, in no particular order.
func (p *Pairer) EachOpen(yield func(process Process, invocation int64)) {
	for proc, pos := range p.open {
		yield(proc, pos)
	}
}

// noPartner marks, in a pair index, an operation without one.
const noPartner = -1

// pairIndex computes, for every position of a source, the position of the
// other entry of the same operation. It stops at the first malformed entry.
func pairIndex(s Source) ([]int64, error) {
	var p Pairer
	var pairs []int64
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

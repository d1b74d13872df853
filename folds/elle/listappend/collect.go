package listappend

import (
	"fmt"

	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/histories"
)

// txn is a committed transaction.
type txn struct {
	invoked   int64 // index of the invocation
	completed int64 // index of the completion
	process   histories.Process
	mops      []histories.Mop // of the completion
}

// write is an append of an element to a key.
type write struct {
	element   histories.Value
	outcome   histories.Type // OK, Fail or Info
	completed int64          // index of the completion (of the invocation, if there is none)
	txn       int            // position in txns, if OK
	// later is the element that the same transaction appended to the same key
	// last, if it was another one. Zero value otherwise.
	later    histories.Value
	notFinal bool
	seen     bool // whether the element stands in the longest read
}

// read is a read of a key by a committed transaction.
type read struct {
	txn  int
	mop  int
	list histories.Value
}

// keyData is what is known about one key.
type keyData struct {
	name    histories.Value
	writes  map[string]*write // by element
	order   []string          // elements in the order of their invocations
	reads   []read
	longest histories.Value // the longest list read
}

// collected is a whole history, by key.
type collected struct {
	keys      map[string]*keyData
	names     []string // of the keys, in order of appearance
	txns      []txn
	reads     int64
	malformed string // why the history cannot be judged
	open      map[histories.Process]invocation
	buf       []byte
}

type invocation struct {
	index int64
	mops  []histories.Mop
}

func collectFold() folds.Fold[*collected, *collected] {
	return folds.Fold[*collected, *collected]{
		Name:    "list-append",
		Columns: histories.ColIndex | histories.ColProcess | histories.ColType | histories.ColValue,
		New: func() *collected {
			return &collected{keys: map[string]*keyData{}, open: map[histories.Process]invocation{}}
		},
		Step: func(c *collected, op histories.Op) (*collected, error) {
			if op.Process.IsClient() {
				c.add(&op)
			}
			if c.malformed != "" {
				return c, folds.ErrStop
			}
			return c, nil
		},
		Result: func(c *collected) (*collected, error) {
			for _, inv := range c.open {
				c.appends(inv.mops, histories.Info, inv.index, -1)
			}
			return c, nil
		},
	}
}

func (c *collected) add(op *histories.Op) {
	mops, isTxn := op.Value.Txn()
	if op.Type == histories.Invoke {
		if !isTxn {
			c.malformed = fmt.Sprintf("operation %d is no transaction of appends and reads: %v", op.Index, op.Value)
			return
		}
		for i := range mops {
			if k := mops[i].Kind; k != histories.MopAppend && k != histories.MopRead {
				c.malformed = fmt.Sprintf("operation %d holds a micro-operation that is neither append nor read: %v", op.Index, mops[i])
				return
			}
		}
		c.open[op.Process] = invocation{op.Index, mops}
		c.declare(op.Index, mops)
		return
	}
	inv, ok := c.open[op.Process]
	if !ok {
		c.malformed = fmt.Sprintf("operation %d completes what was not invoked", op.Index)
		return
	}
	delete(c.open, op.Process)
	if op.Type != histories.OK {
		c.appends(inv.mops, op.Type, op.Index, -1)
		return
	}
	if !isTxn || len(mops) != len(inv.mops) {
		c.malformed = fmt.Sprintf("operation %d does not complete the transaction that operation %d invoked: %v", op.Index, inv.index, op.Value)
		return
	}
	n := len(c.txns)
	c.txns = append(c.txns, txn{inv.index, op.Index, op.Process, mops})
	c.appends(mops, histories.OK, op.Index, n)
	for i := range mops {
		if mops[i].Kind == histories.MopRead {
			k := c.key(mops[i].Key)
			k.reads = append(k.reads, read{n, i, mops[i].Value})
			if mops[i].Value.Len() > k.longest.Len() {
				k.longest = mops[i].Value
			}
			c.reads++
		}
	}
}

func (c *collected) key(name histories.Value) *keyData {
	c.buf = name.AppendKey(c.buf[:0])
	k, ok := c.keys[string(c.buf)]
	if !ok {
		k = &keyData{name: name, writes: map[string]*write{}}
		id := string(c.buf)
		c.keys[id] = k
		c.names = append(c.names, id)
	}
	return k
}

// declare notes the elements that an invocation appends; each may be appended once.
func (c *collected) declare(index int64, mops []histories.Mop) {
	for i := range mops {
		if mops[i].Kind != histories.MopAppend {
			continue
		}
		k := c.key(mops[i].Key)
		c.buf = mops[i].Value.AppendKey(c.buf[:0])
		if _, dup := k.writes[string(c.buf)]; dup {
			c.malformed = fmt.Sprintf("operation %d appends %v to key %v, as an earlier operation did; elements must be unique",
				index, mops[i].Value, k.name)
			return
		}
		e := string(c.buf)
		k.writes[e] = &write{element: mops[i].Value, outcome: histories.Info, completed: index, txn: -1}
		k.order = append(k.order, e)
	}
}

// appends notes what became of the appends of a transaction.
func (c *collected) appends(mops []histories.Mop, outcome histories.Type, completed int64, txn int) {
	for i := range mops {
		if mops[i].Kind != histories.MopAppend {
			continue
		}
		k := c.key(mops[i].Key)
		w := k.write(mops[i].Value)
		if w == nil {
			c.malformed = fmt.Sprintf("operation %d appended %v to key %v, which it had not been asked to", completed, mops[i].Value, k.name)
			return
		}
		w.outcome, w.completed, w.txn = outcome, completed, txn
		for j := len(mops) - 1; j > i; j-- {
			if mops[j].Kind == histories.MopAppend && mops[j].Key.Equal(mops[i].Key) {
				w.later, w.notFinal = mops[j].Value, true
				break
			}
		}
	}
}

// write returns who appended the element, or nil if nobody did.
func (k *keyData) write(element histories.Value) *write {
	return k.writes[string(element.AppendKey(make([]byte, 0, 16)))]
}

// Package jsonl reads and writes histories in JSON, as elle-cli does: an object
// per line, or one array of objects.
//
//	{"type":"invoke","f":"txn","value":[["r",5,null],["append",5,1]],"process":0,"time":12,"index":0}
//	{"type":"ok","f":"txn","value":[["r",5,[]],["append",5,1]],"process":0,"time":90,"index":1}
//
// Reading streams: memory is needed for one operation at a time, and what is
// kept of it. Fields mean what they do in package edn; "process" may be a number
// or the name of a process, such as "nemesis". An array whose elements are all
// ["r",k,v], ["append",k,v], ["w",k,v] or ["rp",p,v] is a transaction.
//
// JSON has fewer kinds of values than histories have. Keywords are written as
// strings, sets and tuples as arrays, binary data as base64 text, keys of maps
// that are no strings as their EDN, and tagged values as {"#tag": value}; they
// are read back as what JSON has for them. Use EDN where that matters.
package jsonl

import (
	"io"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/histories/internal/text"
)

// SyntaxError says where a text is not a history, and why.
type SyntaxError = text.SyntaxError

// MaxOp is the length in bytes of the longest operation that is read.
const MaxOp = text.MaxOp

// Reader reads operations one by one.
type Reader struct {
	p       parser
	fields  text.Fields
	inside  bool // whether the operations are the elements of an array
	started bool
	err     error
}

// NewReader returns a Reader of r, which it reads in large pieces.
func NewReader(r io.Reader) *Reader { return &Reader{p: parser{Scanner: text.NewScanner(r)}} }

// Read returns the next operation. The error is io.EOF after the last one, and
// otherwise a [*SyntaxError], or that of the underlying reader; all later calls
// return it, too. Index and Time are [histories.Missing] where the text has none.
func (r *Reader) Read() (histories.Op, error) {
	if r.err != nil {
		return histories.Op{}, r.err
	}
	op, err := r.read()
	if err != nil {
		r.err = err
		return histories.Op{}, err
	}
	return op, nil
}

// Line returns the line, from 1, behind the operation that was read last.
func (r *Reader) Line() int {
	line, _ := r.p.Where()
	return line
}

// Names returns the names of the named processes that have occurred so far.
func (r *Reader) Names() histories.Names { return r.fields.Names }

func (r *Reader) read() (op histories.Op, err error) {
	defer text.Catch(&err)
	p := &r.p
	c, more := p.skipSpace()
	first := !r.started
	if first {
		r.started = true
		if more && c == '[' {
			p.Pos++
			r.inside = true
			c, more = p.skipSpace()
		}
	} else if r.inside && more && c == ',' {
		p.Pos++
		if c, more = p.skipSpace(); more && c == ']' {
			p.Failf("an operation should come behind the comma")
		}
	} else if r.inside && more && c != ']' {
		p.Failf("a comma or ']' should come, not %q", c)
	}
	p.Forget()
	switch {
	case !more && !r.inside:
		return op, io.EOF
	case !more:
		p.Failf("the history begins with '[' but does not end with ']'")
	case r.inside && c == ']':
		p.Pos++
		if _, more := p.skipSpace(); more {
			p.Failf("there is something behind the end of the history")
		}
		return op, io.EOF
	case c != '{':
		p.Failf("an operation should come, which is an object, not %q", c)
	}
	return r.operation(), nil
}

// operation reads the object of an operation at Pos.
func (r *Reader) operation() histories.Op {
	p := &r.p
	start := p.Pos
	b := r.fields.Begin()
	p.object(func(name string) {
		before := p.Pos
		if v := p.value(); !b.Set(name, v) {
			p.Pos = before
			p.skipSpace()
			p.Failf("%v cannot be the %q of an operation", v, name)
		}
	})
	if missing := b.Lacks(); missing != "" {
		p.Pos = start
		p.Failf("an operation has no %q", missing)
	}
	return b.Op
}

// ReadHistory reads a whole history. Indices and times that are missing are
// filled in as [histories.Builder] does. Entries need not pair up here: use
// [histories.Check] where that matters.
func ReadHistory(r io.Reader) (histories.History, error) { return text.ReadAll(NewReader(r)) }

// Package edn reads and writes histories in EDN, the notation in which Jepsen
// stores them:
//
//	{:type :invoke, :f :txn, :value [[:r 5 nil] [:append 5 1]], :process 0, :time 12, :index 0}
//	{:type :ok, :f :txn, :value [[:r 5 []] [:append 5 1]], :process 0, :time 90, :index 1}
//
// Histories are a map per line, or one vector or list of maps. Reading streams:
// memory is needed for one operation at a time, and what is kept of it.
//
//	h, err := edn.ReadHistory(file)
//
// How EDN becomes operations:
//
//   - :process may be a number, or a keyword: :nemesis is [histories.Nemesis],
//     further ones get the numbers below it (see [Reader.Names]).
//   - :index and :time may be missing, from all operations or from none.
//   - :f is a keyword, a symbol or a string.
//   - A vector whose elements are all [:r k v], [:append k v], [:w k v] or
//     [:rp p v] is a transaction; a vector of integers is compact (see [histories.Ints]).
//   - :error and all fields that are not named here are kept, :error in Op.Error,
//     the others in Op.Extra.
//   - A :phase of :begin or :end is that of a nemesis operation.
//   - Tagged values stay tagged; records such as #jepsen.history.Op{…} are maps.
//
// Numbers that do not fit (bignums, ratios) and characters are kept as tagged
// texts, so that nothing is lost.
package edn

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
	inside  byte // the delimiter that closes the vector or list of operations; 0 if there is none
	started bool
	err     error
}

// NewReader returns a Reader of r, which it reads in large pieces.
func NewReader(r io.Reader) *Reader {
	return &Reader{p: parser{Scanner: text.NewScanner(r)}}
}

// Read returns the next operation. The error is io.EOF after the last one, and
// otherwise a [*SyntaxError], or that of the underlying reader; all later calls
// return it, too. Index and Time are [histories.Missing] where the text has none.
// The operation shares no memory with the Reader's buffer.
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
	c, more := r.p.skipSpace()
	if !r.started {
		r.started = true
		if more && (c == '[' || c == '(') {
			r.p.Pos++
			r.inside = closing(c)
			c, more = r.p.skipSpace()
		}
	}
	r.p.Forget()
	switch {
	case !more && r.inside == 0:
		return op, io.EOF
	case !more:
		r.p.Failf("the history begins with %q but does not end with %q", opening(r.inside), r.inside)
	case r.inside != 0 && c == r.inside:
		r.p.Pos++
		if _, more := r.p.skipSpace(); more {
			r.p.Failf("there is something behind the end of the history")
		}
		return op, io.EOF
	}
	return r.operation(), nil
}

func closing(c byte) byte {
	if c == '[' {
		return ']'
	}
	return ')'
}

func opening(c byte) byte {
	if c == ']' {
		return '['
	}
	return '('
}

// ReadHistory reads a whole history. Indices and times that are missing are
// filled in as [histories.Builder] does. Entries need not pair up here: use
// [histories.Check] where that matters.
func ReadHistory(r io.Reader) (histories.History, error) { return text.ReadAll(NewReader(r)) }

// ParseValue reads a single value.
func ParseValue(s string) (v histories.Value, err error) {
	p := parser{Scanner: text.NewBytesScanner([]byte(s))}
	defer text.Catch(&err)
	v = p.value()
	if _, more := p.skipSpace(); more {
		p.Failf("there is something behind the value")
	}
	return v, nil
}

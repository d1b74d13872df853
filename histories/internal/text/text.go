// Package text is what the readers of histories in EDN and JSON have in common:
// a window over a stream, errors with a line and a column, and memory for values
// that is handed out in large pieces.
package text

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// SyntaxError says where a text is not a history, and why.
type SyntaxError struct {
	Line, Column int // from 1; columns count bytes
	Problem      string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Problem)
}

// MaxOp is the length in bytes of the longest operation that is read.
const MaxOp = 64 << 20

// maxDepth bounds how deep values may be nested.
const maxDepth = 500

// Scanner holds the text of the current operation, from its beginning on, and
// reads more when it comes to the end. It reports errors by panicking with a
// private type, which Catch turns into an error: there are too many places where
// a text can be wrong to test after each step.
type Scanner struct {
	Buf []byte
	Pos int // what comes next is Buf[Pos], if there is one: see More

	src       io.Reader // nil: Buf is all there is
	eof       bool
	err       error // what src returned, other than io.EOF
	lines     int   // lines before Buf
	lineStart int   // where the line of Buf[0] began, relative to Buf: 0 or negative
	depth     int
}

// NewScanner returns a Scanner of src.
func NewScanner(src io.Reader) Scanner { return Scanner{src: src} }

// NewBytesScanner returns a Scanner of a text that is there already.
func NewBytesScanner(text []byte) Scanner { return Scanner{Buf: text, eof: true} }

// problem is what the methods of a Scanner panic with.
type problem struct{ err error }

// Catch, deferred, turns the panic of Failf into an error.
func Catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case problem:
		*err = r.err
	default:
		panic(r)
	}
}

// Failf ends the reading with a [*SyntaxError] about what is at Pos, or with the
// error of the underlying reader.
func (s *Scanner) Failf(format string, args ...any) {
	if s.err != nil {
		panic(problem{fmt.Errorf("read history: %w", s.err)})
	}
	line, column := s.Where()
	panic(problem{&SyntaxError{line, column, fmt.Sprintf(format, args...)}})
}

// Where returns the line and the column at Pos.
func (s *Scanner) Where() (line, column int) {
	start := s.lineStart
	before := s.Buf[:min(s.Pos, len(s.Buf))]
	if i := bytes.LastIndexByte(before, '\n'); i >= 0 {
		start = i + 1
	}
	return s.lines + bytes.Count(before, newline) + 1, s.Pos - start + 1
}

var newline = []byte{'\n'}

// Forget drops the text before Pos: an operation has been read. It waits until
// that is more than half of what there is, so that little is moved.
func (s *Scanner) Forget() {
	if s.Pos < len(s.Buf)/2 || s.src == nil {
		return
	}
	done := s.Buf[:s.Pos]
	if n := bytes.Count(done, newline); n > 0 {
		s.lines += n
		s.lineStart = bytes.LastIndexByte(done, '\n') + 1
	}
	s.lineStart -= s.Pos
	s.Buf = s.Buf[:copy(s.Buf, s.Buf[s.Pos:])]
	s.Pos = 0
}

const readSize = 1 << 18

// More reads on if needed, and reports whether there is a byte at Pos.
func (s *Scanner) More() bool {
	for s.Pos >= len(s.Buf) {
		if s.eof {
			return false
		}
		if len(s.Buf) > MaxOp {
			s.Failf("an operation is longer than %d MiB", MaxOp>>20)
		}
		if cap(s.Buf)-len(s.Buf) < readSize/2 {
			grown := make([]byte, len(s.Buf), 2*cap(s.Buf)+readSize)
			copy(grown, s.Buf)
			s.Buf = grown
		}
		n, err := s.src.Read(s.Buf[len(s.Buf):cap(s.Buf)])
		s.Buf = s.Buf[:len(s.Buf)+n]
		if err != nil {
			s.eof = true
			if !errors.Is(err, io.EOF) {
				s.err = err
				s.Failf("")
			}
		}
	}
	return true
}

// Enter and Leave bracket a nested value.
func (s *Scanner) Enter() {
	if s.depth++; s.depth > maxDepth {
		s.Failf("values are nested more than %d deep", maxDepth)
	}
}

// Leave ends what Enter began.
func (s *Scanner) Leave() { s.depth-- }

// Integer reads a decimal number of up to 18 digits: what most numbers are.
func Integer(w []byte) (n int64, ok bool) {
	digits := w
	if w[0] == '-' || w[0] == '+' {
		digits = w[1:]
	}
	if len(digits) == 0 || len(digits) > 18 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if w[0] == '-' {
		n = -n
	}
	return n, true
}

// IsInteger reports whether s is a decimal number of any length.
func IsInteger(s string) bool {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		s = s[1:]
	}
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

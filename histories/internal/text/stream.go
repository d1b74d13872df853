package text

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/jepsentest/go/histories"
)

// Reader reads operations one by one.
type Reader interface {
	// Read returns the next operation, and io.EOF after the last one.
	Read() (histories.Op, error)
	// Names returns the names of the named processes so far.
	Names() histories.Names
	// Line returns the line at which the reader is.
	Line() int
}

// ReadAll reads a whole history.
func ReadAll(r Reader) (histories.History, error) {
	var b histories.Builder
	for {
		op, err := r.Read()
		if errors.Is(err, io.EOF) {
			b.Names = r.Names()
			return b.History(), nil
		}
		if err != nil {
			return nil, err
		}
		if err := b.Add(op); err != nil {
			return nil, fmt.Errorf("line %d: %w", r.Line(), err)
		}
	}
}

// AppendFunc appends an operation to b in some notation.
type AppendFunc func(b []byte, op *histories.Op, names histories.Names) []byte

// Writer writes operations, one a line. It is made by the packages of the notations.
type Writer struct {
	w      *bufio.Writer
	names  histories.Names
	append AppendFunc
	buf    []byte
}

// NewWriter returns a Writer to w. names are those of the named processes.
func NewWriter(w io.Writer, names histories.Names, f AppendFunc) *Writer {
	return &Writer{w: bufio.NewWriterSize(w, 1<<18), names: names, append: f}
}

// Write writes an operation. Errors of the underlying writer may come later,
// but no later than with Flush.
func (w *Writer) Write(op *histories.Op) error {
	w.buf = append(w.append(w.buf[:0], op, w.names), '\n')
	if _, err := w.w.Write(w.buf); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// Flush writes what is buffered.
func (w *Writer) Flush() error {
	if err := w.w.Flush(); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// WriteAll writes all of h to out, and flushes it.
func WriteAll(out *Writer, h histories.History) error {
	for op, err := range h.All() {
		if err != nil {
			return err
		}
		if err := out.Write(&op); err != nil {
			return err
		}
	}
	return out.Flush()
}

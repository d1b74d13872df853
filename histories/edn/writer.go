package edn

import (
	"io"
	"strconv"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/histories/internal/text"
)

// Writer writes operations, one map a line, in the way that Jepsen and elle-cli
// read them. What a [Reader] read it writes back with the same meaning.
// Errors of the underlying writer may come as late as with Flush.
type Writer = text.Writer

// NewWriter returns a Writer to w. names are those of the named processes.
func NewWriter(w io.Writer, names histories.Names) *Writer {
	return text.NewWriter(w, names, AppendOp)
}

// WriteHistory writes all of h.
func WriteHistory(w io.Writer, h histories.History) error {
	return text.WriteAll(NewWriter(w, h.Source().Names()), h)
}

// AppendOp appends an operation as a map.
func AppendOp(b []byte, op *histories.Op, names histories.Names) []byte {
	b = append(b, "{:type :"...)
	b = append(b, op.Type.String()...)
	b = append(b, ", :process "...)
	if op.Process.IsClient() {
		b = strconv.AppendInt(b, int64(op.Process), 10)
	} else {
		b = appendName(b, names.Name(op.Process))
	}
	b = append(b, ", :f "...)
	b = appendName(b, op.F)
	b = append(b, ", :value "...)
	b = op.Value.AppendEDN(b)
	if !op.Error.IsNil() {
		b = append(b, ", :error "...)
		b = op.Error.AppendEDN(b)
	}
	if op.Phase != histories.NoPhase {
		b = append(append(b, ", :phase :"...), op.Phase.String()...)
	}
	for _, f := range op.Extra {
		b = append(appendName(append(b, ", "...), f.Name), ' ')
		b = f.Value.AppendEDN(b)
	}
	b = append(b, ", :time "...)
	b = strconv.AppendInt(b, int64(op.Time), 10)
	b = append(b, ", :index "...)
	b = strconv.AppendInt(b, op.Index, 10)
	return append(b, '}')
}

// appendName writes a name as a keyword, or as a string if it cannot be one; the
// empty name is nil.
func appendName(b []byte, name string) []byte {
	if name == "" {
		return append(b, "nil"...)
	}
	for i := range len(name) {
		if !isWord[name[i]] {
			return histories.String(name).AppendEDN(b)
		}
	}
	return append(append(b, ':'), name...)
}

package jsonl

import (
	"encoding/base64"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/histories/internal/text"
)

// Writer writes operations, one object a line.
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

// AppendOp appends an operation as an object.
func AppendOp(b []byte, op *histories.Op, names histories.Names) []byte {
	b = append(b, `{"type":"`...)
	b = append(b, op.Type.String()...)
	b = append(b, `","process":`...)
	if op.Process.IsClient() {
		b = strconv.AppendInt(b, int64(op.Process), 10)
	} else {
		b = appendString(b, names.Name(op.Process))
	}
	b = append(b, `,"f":`...)
	b = appendString(b, op.F)
	b = append(b, `,"value":`...)
	b = AppendValue(b, op.Value)
	if !op.Error.IsNil() {
		b = append(b, `,"error":`...)
		b = AppendValue(b, op.Error)
	}
	if op.Phase != histories.NoPhase {
		b = append(append(append(b, `,"phase":"`...), op.Phase.String()...), '"')
	}
	for _, f := range op.Extra {
		b = append(appendString(append(b, ','), f.Name), ':')
		b = AppendValue(b, f.Value)
	}
	b = append(b, `,"time":`...)
	b = strconv.AppendInt(b, int64(op.Time), 10)
	b = append(b, `,"index":`...)
	b = strconv.AppendInt(b, op.Index, 10)
	return append(b, '}')
}

// AppendValue appends a value as JSON. See the package comment for what JSON
// has no notion of. Numbers that are none or infinite are written as strings.
func AppendValue(b []byte, v histories.Value) []byte {
	switch v.Kind() {
	case histories.KindNil:
		return append(b, "null"...)
	case histories.KindBool:
		t, _ := v.Bool()
		return strconv.AppendBool(b, t)
	case histories.KindInt:
		n, _ := v.Int()
		return strconv.AppendInt(b, n, 10)
	case histories.KindFloat:
		return appendFloat(b, v)
	case histories.KindString:
		s, _ := v.Str()
		return appendString(b, s)
	case histories.KindKeyword:
		s, _ := v.Keyword()
		return appendString(b, s)
	case histories.KindBytes:
		raw, _ := v.Bytes()
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, raw)
		return append(b, '"')
	case histories.KindList, histories.KindSet, histories.KindTuple:
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = AppendValue(b, v.At(i))
		}
		return append(b, ']')
	case histories.KindTxn:
		return appendTxn(b, v)
	case histories.KindMap:
		return appendMap(b, v)
	case histories.KindTagged:
		return appendTagged(b, v)
	}
	return appendString(b, v.String())
}

func appendTxn(b []byte, v histories.Value) []byte {
	b = append(b, '[')
	mops, _ := v.Txn()
	for i := range mops {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, `["`...), mops[i].Kind.String()...), `",`...)
		b = append(AppendValue(b, mops[i].Key), ',')
		b = append(AppendValue(b, mops[i].Value), ']')
	}
	return append(b, ']')
}

func appendMap(b []byte, v histories.Value) []byte {
	b = append(b, '{')
	entries, _ := v.Map()
	for i, e := range entries {
		if i > 0 {
			b = append(b, ',')
		}
		name, ok := e.Key.Str()
		if !ok {
			if name, ok = e.Key.Keyword(); !ok {
				name = e.Key.String()
			}
		}
		b = append(appendString(b, name), ':')
		b = AppendValue(b, e.Value)
	}
	return append(b, '}')
}

func appendTagged(b []byte, v histories.Value) []byte {
	tag, w, _ := v.Tagged()
	if digits, ok := w.Str(); ok {
		switch tag {
		case "bigint":
			return append(b, digits...)
		case "symbol", "char", "ratio", "bigdec":
			return appendString(b, digits)
		}
	}
	b = append(appendString(append(b, '{'), "#"+tag), ':')
	return append(AppendValue(b, w), '}')
}

func appendFloat(b []byte, v histories.Value) []byte {
	f, _ := v.Float()
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return appendString(b, strconv.FormatFloat(f, 'g', -1, 64))
	}
	return v.AppendEDN(b) // which always shows that it is no integer
}

const hex = "0123456789abcdef"

// appendString appends a JSON string. Bytes that are not UTF-8 are replaced.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += size
			continue
		}
		i++
	}
	return append(b, '"')
}

package jsonl

import (
	"bytes"
	"strconv"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/histories/internal/text"
)

// parser turns bytes into values.
type parser struct {
	text.Scanner
	scratch []histories.Value // elements of the arrays that are being read
	slab    text.Slabs
}

// skipSpace moves to the next byte that means something.
func (p *parser) skipSpace() (c byte, more bool) {
	for p.Pos < len(p.Buf) || p.More() {
		switch c := p.Buf[p.Pos]; c {
		case ' ', '\n', '\r', '\t':
			p.Pos++
		default:
			return c, true
		}
	}
	return 0, false
}

// need is skipSpace where something must come.
func (p *parser) need(what string) byte {
	c, more := p.skipSpace()
	if !more {
		p.Failf("the text ends where %s should come", what)
	}
	return c
}

// value reads a value.
func (p *parser) value() histories.Value {
	p.Enter()
	defer p.Leave()
	switch c := p.need("a value"); {
	case c == '[':
		return p.array()
	case c == '{':
		return p.mapping()
	case c == '"':
		return histories.String(p.str())
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case c >= 'a' && c <= 'z':
		return p.literal()
	default:
		p.Failf("unexpected %q", c)
		panic("unreachable")
	}
}

func (p *parser) array() histories.Value {
	p.Pos++
	base := len(p.scratch)
	for c := p.need("']'"); c != ']'; {
		p.scratch = append(p.scratch, p.value())
		if c = p.need("']'"); c == ',' {
			p.Pos++
			if c = p.need("a value"); c == ']' {
				p.Failf("a value should come behind the comma")
			}
		} else if c != ']' {
			p.Failf("a comma or ']' should come, not %q", c)
		}
	}
	p.Pos++
	vs := p.scratch[base:]
	p.scratch = p.scratch[:base]
	if txn, ok := p.slab.Transaction(vs, histories.Value.Str); ok {
		return txn
	}
	return p.slab.List(vs)
}

// object reads an object; field is called for each name, and reads the value.
func (p *parser) object(field func(name string)) {
	p.Pos++
	for c := p.need("'}'"); c != '}'; {
		if c != '"' {
			p.Failf("a name should come, which is a string, not %q", c)
		}
		name := p.str()
		if c = p.need("':'"); c != ':' {
			p.Failf("':' should come, not %q", c)
		}
		p.Pos++
		field(name)
		if c = p.need("'}'"); c == ',' {
			p.Pos++
			if c = p.need("a name"); c == '}' {
				p.Failf("a name should come behind the comma")
			}
		} else if c != '}' {
			p.Failf("a comma or '}' should come, not %q", c)
		}
	}
	p.Pos++
}

func (p *parser) mapping() histories.Value {
	var entries []histories.Entry
	p.object(func(name string) {
		entries = append(entries, histories.Entry{Key: histories.String(name), Value: p.value()})
	})
	return histories.MapOf(entries...)
}

// word returns the bytes of the number or literal at Pos.
func (p *parser) word() []byte {
	start := p.Pos
	for p.Pos < len(p.Buf) || p.More() {
		c := p.Buf[p.Pos]
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == 'E' || c == '.' || c == '-' || c == '+') {
			break
		}
		p.Pos++
	}
	return p.Buf[start:p.Pos]
}

func (p *parser) literal() histories.Value {
	start := p.Pos
	switch w := p.word(); string(w) {
	case "null":
		return histories.Nil()
	case "true":
		return histories.Bool(true)
	case "false":
		return histories.Bool(false)
	default:
		p.Pos = start
		p.Failf("%q is no value", w)
		panic("unreachable")
	}
}

func (p *parser) number() histories.Value {
	start := p.Pos
	w := p.word()
	digits := bytes.TrimPrefix(w, minus)
	if n, ok := text.Integer(w); ok && (digits[0] != '0' || len(digits) == 1) {
		return histories.Int(n)
	}
	s := string(w)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && isNumber(s) {
		return histories.Int(n)
	}
	if text.IsInteger(s) && isNumber(s) {
		return histories.Tagged("bigint", histories.String(s))
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !isNumber(s) {
		p.Pos = start
		p.Failf("%q is no number", s)
	}
	return histories.Float(f)
}

var minus = []byte{'-'}

// isNumber reports whether s, which Go reads as a number, is one in JSON, too:
// digits before and behind a point, and no zeros in front.
func isNumber(s string) bool {
	if s != "" && s[0] == '-' {
		s = s[1:]
	}
	digit := func(i int) bool { return i < len(s) && s[i] >= '0' && s[i] <= '9' }
	if !digit(0) || s[0] == '0' && digit(1) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c == '.' && !digit(i+1) || (c < '0' || c > '9') && c != '.' && c != 'e' && c != 'E' && c != '-' && c != '+' {
			return false
		}
	}
	return true
}

// str reads a string, with its escapes.
func (p *parser) str() string { return p.Quoted(&p.slab, text.Quoting{}) }

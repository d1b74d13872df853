package edn

import (
	"strconv"
	"unicode/utf8"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/histories/internal/text"
)

// parser turns bytes into values.
type parser struct {
	text.Scanner
	scratch []histories.Value // values of the collections that are being read
	slab    text.Slabs
}

// skipSpace moves to the next byte that means something.
func (p *parser) skipSpace() (c byte, more bool) {
	for {
		if p.Pos >= len(p.Buf) && !p.More() {
			return 0, false
		}
		switch c := p.Buf[p.Pos]; c {
		case ' ', ',', '\n', '\r', '\t', '\f', '\v':
			p.Pos++
		case ';':
			for p.More() && p.Buf[p.Pos] != '\n' {
				p.Pos++
			}
		case '#':
			if p.Pos++; !p.More() || p.Buf[p.Pos] != '_' {
				p.Pos--
				return c, true
			}
			p.Pos++
			p.value() // discarded
		default:
			return c, true
		}
	}
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
	switch c := p.need("a value"); c {
	case '[':
		p.Pos++
		return p.sequence(']')
	case '(':
		p.Pos++
		return p.sequence(')')
	case '{':
		p.Pos++
		return p.mapping()
	case '"':
		return histories.String(p.str())
	case ':':
		p.Pos++
		return histories.Keyword(p.word("a keyword"))
	case '#':
		p.Pos++
		return p.dispatch()
	case '\\':
		return p.character()
	case ']', ')', '}':
		p.Failf("unexpected %q", c)
		panic("unreachable")
	default:
		return p.atom(c)
	}
}

// elements reads values up to the closing delimiter onto the scratch stack and
// returns where they begin there.
func (p *parser) elements(end byte) (base int) {
	base = len(p.scratch)
	for {
		c, more := p.skipSpace()
		if !more {
			p.Failf("the text ends where %q should come", end)
		}
		if c == end {
			p.Pos++
			return base
		}
		if c == ']' || c == ')' || c == '}' {
			p.Failf("unexpected %q, %q should come", c, end)
		}
		v := p.value()
		p.scratch = append(p.scratch, v)
	}
}

func (p *parser) sequence(end byte) histories.Value {
	base := p.elements(end)
	vs := p.scratch[base:]
	p.scratch = p.scratch[:base]
	if mops, ok := p.slab.Transaction(vs, histories.Value.Keyword); ok {
		return mops
	}
	return p.slab.List(vs)
}

func (p *parser) mapping() histories.Value {
	base := p.elements('}')
	vs := p.scratch[base:]
	p.scratch = p.scratch[:base]
	if len(vs)%2 != 0 {
		p.Failf("a map has a key without a value")
	}
	entries := make([]histories.Entry, len(vs)/2)
	for i := range entries {
		entries[i] = histories.Entry{Key: vs[2*i], Value: vs[2*i+1]}
	}
	return histories.MapOf(entries...)
}

// dispatch reads what begins with #: a set, a symbolic number, or a tagged value.
func (p *parser) dispatch() histories.Value {
	if !p.More() {
		p.Failf("the text ends behind #")
	}
	switch p.Buf[p.Pos] {
	case '{':
		p.Pos++
		base := p.elements('}')
		vs := append([]histories.Value(nil), p.scratch[base:]...)
		p.scratch = p.scratch[:base]
		return histories.SetOf(vs...)
	case '#':
		p.Pos++
		switch w := p.word("NaN, Inf or -Inf"); w {
		case "NaN", "Inf", "-Inf":
			f, err := strconv.ParseFloat(w, 64)
			if err != nil {
				p.Failf("bad number ##%s", w)
			}
			return histories.Float(f)
		default:
			p.Failf("unknown number ##%s", w)
		}
	}
	tag := p.word("a tag")
	v := p.value()
	if tag == "jepsen.history.Op" && v.Kind() == histories.KindMap {
		return v
	}
	if tag == "bytes" {
		if b, ok := decodeBytes(v); ok {
			return b
		}
	}
	return histories.Tagged(tag, v)
}

// isWord tells the bytes of symbols, keywords and numbers.
var isWord = func() (t [256]bool) {
	for c := range 256 {
		switch byte(c) {
		case ' ', ',', '\n', '\r', '\t', '\f', '\v', '"', ';', '[', ']', '(', ')', '{', '}', '\\':
		default:
			t[c] = c > ' '
		}
	}
	return t
}()

// wordEnd returns where the word that begins at pos ends.
func (p *parser) wordEnd() int {
	start := p.Pos
	i := start
	for {
		for i < len(p.Buf) && isWord[p.Buf[i]] {
			i++
		}
		if i < len(p.Buf) {
			break
		}
		p.Pos = i
		if !p.More() {
			break
		}
	}
	p.Pos = start
	return i
}

func (p *parser) word(what string) string {
	end := p.wordEnd()
	if end == p.Pos {
		p.Failf("%s should come", what)
	}
	w := p.slab.Word(p.Buf[p.Pos:end])
	p.Pos = end
	return w
}

// atom reads a number, nil, a boolean or a symbol.
func (p *parser) atom(c byte) histories.Value {
	end := p.wordEnd()
	if end == p.Pos {
		p.Failf("unexpected byte %q", c)
	}
	w := p.Buf[p.Pos:end]
	if c >= '0' && c <= '9' || (c == '-' || c == '+') && len(w) > 1 && w[1] >= '0' && w[1] <= '9' {
		v := p.number(w)
		p.Pos = end
		return v
	}
	var v histories.Value
	switch string(w) {
	case "nil":
	case "true":
		v = histories.Bool(true)
	case "false":
		v = histories.Bool(false)
	default:
		v = histories.Tagged("symbol", histories.String(p.slab.Word(w)))
	}
	p.Pos = end
	return v
}

func (p *parser) number(w []byte) histories.Value {
	if n, ok := text.Integer(w); ok {
		return histories.Int(n)
	}
	s := string(w)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return histories.Int(n)
	}
	last := s[len(s)-1]
	if last == 'N' {
		if n, err := strconv.ParseInt(s[:len(s)-1], 10, 64); err == nil {
			return histories.Int(n)
		}
		if text.IsInteger(s[:len(s)-1]) {
			return histories.Tagged("bigint", histories.String(s[:len(s)-1]))
		}
	}
	if text.IsInteger(s) {
		return histories.Tagged("bigint", histories.String(s))
	}
	if last == 'M' {
		if _, err := strconv.ParseFloat(s[:len(s)-1], 64); err == nil {
			return histories.Tagged("bigdec", histories.String(s[:len(s)-1]))
		}
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && last != 'x' {
		return histories.Float(f)
	}
	for i := 1; i < len(s)-1; i++ {
		if s[i] == '/' && text.IsInteger(s[:i]) && text.IsInteger(s[i+1:]) {
			return histories.Tagged("ratio", histories.String(s))
		}
	}
	p.Failf("%q is no number", s)
	panic("unreachable")
}

// str reads a string, with its escapes.
func (p *parser) str() string {
	return p.Quoted(&p.slab, text.Quoting{ExtraEscapes: "'", Control: true})
}

// character reads \a, \newline and the like.
func (p *parser) character() histories.Value {
	p.Pos++
	if !p.More() {
		p.Failf("the text ends behind \\")
	}
	first := p.Pos
	_, size := utf8.DecodeRune(p.Buf[p.Pos:min(len(p.Buf), p.Pos+4)])
	p.Pos += size
	end := p.wordEnd()
	name := string(p.Buf[first:end])
	p.Pos = end
	return histories.Tagged("char", histories.String(name))
}

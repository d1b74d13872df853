package edn

import (
	"encoding/base64"

	"github.com/jepsentest/go/histories"
)

// operation reads the map of an operation at pos.
func (r *Reader) operation() histories.Op {
	p := &r.p
	start := p.Pos
	if p.need("an operation") == '#' { // #jepsen.history.Op{…}
		p.Pos++
		p.word("a tag")
	}
	if c := p.need("an operation"); c != '{' {
		p.Failf("an operation should come, which is a map, not %q", c)
	}
	p.Pos++
	b := r.fields.Begin()
	for {
		c := p.need("a field of an operation")
		if c == '}' {
			p.Pos++
			break
		}
		name := r.fieldName(c)
		before := p.Pos
		v := p.value()
		if !b.Set(name, v) {
			p.Pos = before
			p.skipSpace()
			p.Failf("%v cannot be the :%s of an operation", v, name)
		}
	}
	if missing := b.Lacks(); missing != "" {
		p.Pos = start
		p.Failf("an operation has no :%s", missing)
	}
	return b.Op
}

// fieldName reads the name of a field: a keyword, or a string for names that
// cannot be one.
func (r *Reader) fieldName(c byte) string {
	p := &r.p
	switch c {
	case ':':
		p.Pos++
		return p.word("the name of a field")
	case '"':
		return p.str()
	}
	p.Failf("the name of a field should come, which is a keyword, not %q", c)
	panic("unreachable")
}

// decodeBytes reads the value of #bytes "…".
func decodeBytes(v histories.Value) (histories.Value, bool) {
	text, ok := v.Str()
	if !ok {
		return histories.Value{}, false
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return histories.Value{}, false
	}
	return histories.Bytes(b), true
}

package text

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Quoting is how a notation writes strings, beyond what all have in common.
type Quoting struct {
	ExtraEscapes string // bytes that may be escaped besides ", \\ and /
	Control      bool   // whether control characters may stand for themselves
}

// Quoted reads the string whose opening quote is at Pos. Short ones are kept once
// in words.
func (s *Scanner) Quoted(words *Slabs, q Quoting) string {
	s.Pos++ // the quote
	start := s.Pos
	var out []byte
	plain := true // no escape so far: the string is what stands in Buf
	for {
		if s.Pos >= len(s.Buf) && !s.More() {
			s.Failf("a string does not end")
		}
		switch c := s.Buf[s.Pos]; {
		case c == '"':
			s.Pos++
			if plain {
				return words.Word(s.Buf[start : s.Pos-1])
			}
			return string(out)
		case c == '\\':
			if plain {
				out, plain = append(out, s.Buf[start:s.Pos]...), false
			}
			out = s.escape(out, q)
		case c < ' ' && !q.Control:
			s.Failf("a string contains the control character %q", c)
		default:
			if !plain {
				out = append(out, c)
			}
			s.Pos++
		}
	}
}

// escape reads the escape at Pos and appends what it stands for.
func (s *Scanner) escape(out []byte, q Quoting) []byte {
	s.Pos++
	if !s.More() {
		s.Failf("a string does not end")
	}
	c := s.Buf[s.Pos]
	s.Pos++
	switch c {
	case 'n':
		return append(out, '\n')
	case 't':
		return append(out, '\t')
	case 'r':
		return append(out, '\r')
	case 'b':
		return append(out, '\b')
	case 'f':
		return append(out, '\f')
	case '"', '\\', '/':
		return append(out, c)
	case 'u':
		return utf8.AppendRune(out, s.utf16())
	}
	if strings.IndexByte(q.ExtraEscapes, c) >= 0 {
		return append(out, c)
	}
	s.Pos--
	s.Failf("unknown escape \\%c in a string", c)
	panic("unreachable")
}

// utf16 reads what follows \u, and a second escape if both make one character.
func (s *Scanner) utf16() rune {
	r := s.hex4()
	if !utf16.IsSurrogate(r) || !s.More() || s.Buf[s.Pos] != '\\' {
		return r
	}
	before := s.Pos
	s.Pos++
	if s.More() && s.Buf[s.Pos] == 'u' {
		s.Pos++
		if pair := utf16.DecodeRune(r, s.hex4()); pair != utf8.RuneError {
			return pair
		}
	}
	s.Pos = before
	return r
}

// hex4 reads the four hexadecimal digits of a \u escape.
func (s *Scanner) hex4() rune {
	var n rune
	for range 4 {
		if !s.More() {
			s.Failf("a string does not end")
		}
		d, err := strconv.ParseUint(string(s.Buf[s.Pos]), 16, 8)
		if err != nil {
			s.Failf("\\u needs four hexadecimal digits")
		}
		n = n<<4 | rune(d)
		s.Pos++
	}
	return n
}

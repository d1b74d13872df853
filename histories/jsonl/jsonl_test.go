package jsonl_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/histories/jsonl"
	"pgregory.net/rapid"
)

const lines = `{"type":"invoke","f":"txn","process":0,"time":3,"index":0,"value":[["append",1,2],["r","x",null]]}
{"type":"ok","f":"txn","process":0,"time":4,"index":1,"value":[["append",1,2],["r","x",[1,2.5,true]]],"node":"n1"}

{"type":"info","f":"kill","process":"nemesis","time":5,"index":2,"value":{"n1":"\u00e9\ud83d\ude00\n"},"error":["x",-1]}`

func TestHistoriesOfEveryShape(t *testing.T) {
	compact := strings.ReplaceAll(lines, "\n\n", "\n")
	for name, text := range map[string]string{
		"lines": lines,
		"array": " [" + strings.ReplaceAll(compact, "\n", " , ") + "] \n",
	} {
		h, err := jsonl.ReadHistory(iotest.OneByteReader(strings.NewReader(text)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ops, err := histories.Collect(h)
		if err != nil || len(ops) != 3 {
			t.Fatalf("%s: %v, %v", name, ops, err)
		}
		if ops[0].Value.Kind() != histories.KindTxn || ops[1].Value.String() != `[[:append 1 2] [:r "x" [1 2.5 true]]]` ||
			ops[1].Field("node").String() != `"n1"` || ops[2].Process != histories.Nemesis || ops[2].Value.String() != `{"n1" "é😀\n"}` ||
			ops[2].Error.String() != `["x" -1]` || ops[2].Time != 5*time.Nanosecond {
			t.Errorf("%s: got %v", name, ops)
		}
	}
	if h, err := jsonl.ReadHistory(strings.NewReader("")); err != nil {
		t.Error(err)
	} else if n, _ := h.Len(); n != 0 {
		t.Errorf("%d operations in an empty text", n)
	}
	if h, err := jsonl.ReadHistory(strings.NewReader("[]")); err != nil {
		t.Error(err)
	} else if n, _ := h.Len(); n != 0 {
		t.Errorf("%d operations in an empty array", n)
	}
}

func TestErrorsSayWhere(t *testing.T) {
	ok := `{"type":"ok","process":0}` + "\n"
	for _, c := range []struct{ text, want string }{
		{`{"type":"ok","process":0`, "line 1, column 25: the text ends where '}' should come"},
		{ok + ` {"type":"great","process":0}`, `line 2, column 10: "great" cannot be the "type"`},
		{ok + `{"type":"ok"}`, `line 2, column 1: an operation has no "process"`},
		{ok + `{"type":"ok",}`, `line 2, column 14: a name should come behind the comma`},
		{ok + `{"type" "ok"}`, `line 2, column 9: ':' should come`},
		{ok + `{type:"ok"}`, `a name should come, which is a string`},
		{ok + `{"value":[1,]}`, `line 2, column 13: a value should come behind the comma`},
		{ok + `{"value":[1 2]}`, `line 2, column 13: a comma or ']' should come, not '2'`},
		{ok + `{"value":01}`, `"01" is no number`},
		{ok + `{"value":1.}`, `"1." is no number`},
		{ok + `{"value":nil}`, `line 2, column 10: "nil" is no value`},
		{ok + `{"value":"a`, "a string does not end"},
		{ok + `{"value":"\q"}`, `unknown escape \q`},
		{ok + "{\"value\":\"\x01\"}", "control character"},
		{ok + "17", "line 2, column 1: an operation should come, which is an object, not '1'"},
		{"[" + ok, "begins with '[' but does not end with ']'"},
		{"[" + ok + ok + "]", "line 2, column 1: a comma or ']' should come, not '{'"},
		{"[" + ok + ",]", "an operation should come behind the comma"},
		{"[" + ok + "] {}", "something behind the end"},
		{`{"value":` + strings.Repeat("[", 1000), "nested more than"},
	} {
		_, err := jsonl.ReadHistory(strings.NewReader(c.text))
		var se *jsonl.SyntaxError
		if !errors.As(err, &se) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: got %v, want %s", c.text, err, c.want)
		}
	}
	broken := errors.New("disk on fire")
	if _, err := jsonl.ReadHistory(io.MultiReader(strings.NewReader(ok), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// What is a number is what the standard library takes for one.
func TestNumbers(t *testing.T) {
	for _, sign := range []string{"", "-", "+", "--"} {
		for _, digits := range []string{"", "0", "00", "05", "5", "10", "123456789012345678901234", "0123456789012345678901234"} {
			for _, rest := range []string{"", ".", ".5", ".50", ".e1", "e1", "e+1", "E-1", "e", "1.2.3", "e1e1", "-1"} {
				number := sign + digits + rest
				line := `{"type":"ok","process":1,"value":[` + number + `]}`
				_, err := jsonl.ReadHistory(strings.NewReader(line))
				if valid := json.Valid([]byte(line)); valid != (err == nil) {
					t.Errorf("%q: valid JSON: %v; read: %v", number, valid, err)
				}
			}
		}
	}
}

func drawValue(t *rapid.T, depth int) histories.Value {
	kinds := 5
	if depth > 0 {
		kinds = 8
	}
	sub := func() histories.Value { return drawValue(t, depth-1) }
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return histories.Nil()
	case 1:
		return histories.Bool(rapid.Bool().Draw(t, "bool"))
	case 2:
		return histories.Int(rapid.Int64().Draw(t, "int"))
	case 3:
		return histories.Float(rapid.Float64().Draw(t, "float"))
	case 4:
		return histories.String(rapid.String().Draw(t, "string"))
	case 5:
		return histories.Ints(rapid.SliceOf(rapid.Int64()).Draw(t, "ints")...)
	case 6:
		return histories.MapOf(histories.Entry{Key: histories.String(rapid.String().Draw(t, "key")), Value: sub()})
	default:
		return histories.Txn(histories.Append(sub(), sub()), histories.ReadOf(sub(), sub()))
	}
}

// What JSON can express is read back as it was written, and what is written is
// JSON by the judgement of the standard library.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b histories.Builder
		for i := range rapid.IntRange(1, 6).Draw(t, "ops") {
			op := histories.Op{Index: int64(i), Time: time.Duration(i), Process: histories.Process(rapid.IntRange(-1, 3).Draw(t, "process")),
				Type: histories.Type(rapid.IntRange(0, 3).Draw(t, "type")), F: rapid.SampledFrom([]string{"", "read", "a \"b\""}).Draw(t, "f"),
				Value: drawValue(t, 3), Phase: histories.Phase(rapid.IntRange(0, 2).Draw(t, "phase"))}
			if rapid.Bool().Draw(t, "more") {
				op.Error, op.Extra = drawValue(t, 1), []histories.Field{{Name: "node", Value: drawValue(t, 2)}}
			}
			if err := b.Add(op); err != nil {
				t.Fatal(err)
			}
		}
		h := b.History()
		var buf bytes.Buffer
		if err := jsonl.WriteHistory(&buf, h); err != nil {
			t.Fatal(err)
		}
		for _, line := range bytes.Split(bytes.TrimSpace(buf.Bytes()), []byte("\n")) {
			if !json.Valid(line) {
				t.Fatalf("this is not JSON: %s", line)
			}
		}
		got, err := jsonl.ReadHistory(iotest.HalfReader(bytes.NewReader(buf.Bytes())))
		if err != nil {
			t.Fatalf("%v\n%s", err, buf.Bytes())
		}
		want, _ := histories.Collect(h)
		ops, _ := histories.Collect(got)
		for i := range want {
			if !ops[i].Equal(want[i]) {
				t.Fatalf("got  %v\nwant %v\nfrom %s", ops[i], want[i], buf.Bytes())
			}
		}
	})
}

// Values that JSON does not have are written as something that it has.
func TestKindsThatJSONLacks(t *testing.T) {
	for _, c := range []struct {
		v    histories.Value
		want string
	}{
		{histories.Keyword("a"), `"a"`},
		{histories.SetOf(histories.Int(1)), `[1]`},
		{histories.Tuple(histories.Int(1), histories.Nil()), `[1,null]`},
		{histories.Bytes([]byte("hi")), `"aGk="`},
		{histories.MapOf(histories.Entry{Key: histories.Int(1), Value: histories.Int(2)}), `{"1":2}`},
		{histories.Tagged("inst", histories.String("2020")), `{"#inst":"2020"}`},
		{histories.Tagged("bigint", histories.String("12345678901234567890")), `12345678901234567890`},
	} {
		if got := jsonl.AppendValue(nil, c.v); string(got) != c.want || !json.Valid(got) {
			t.Errorf("%v: got %s, want %s", c.v, got, c.want)
		}
	}
}

// FuzzHistory: no text makes the reader panic or hang; a text that is read line
// by line is JSON, and what is read can be written and read again.
func FuzzHistory(f *testing.F) {
	f.Add([]byte(lines))
	f.Add([]byte(`[{"type":"ok","process":1,"value":{"a":[1e5,-0.5,"\u0041"]}}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := jsonl.ReadHistory(bytes.NewReader(text))
		if err != nil {
			return
		}
		d := json.NewDecoder(bytes.NewReader(text))
		for {
			var v any
			if err := d.Decode(&v); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%q is read, but is no JSON: %v", text, err)
			}
		}
		var buf bytes.Buffer
		if err := jsonl.WriteHistory(&buf, h); err != nil {
			t.Fatal(err)
		}
		again, err := jsonl.ReadHistory(&buf)
		if err != nil {
			t.Fatalf("%q comes back as %s: %v", text, buf.Bytes(), err)
		}
		n, _ := h.Len()
		if m, _ := again.Len(); !reflect.DeepEqual(n, m) {
			t.Fatalf("%d operations became %d", n, m)
		}
	})
}

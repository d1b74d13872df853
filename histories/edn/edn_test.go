package edn_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/histories/edn"
	"pgregory.net/rapid"
)

func TestValues(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"nil", "nil"}, {"true", "true"}, {" false ", "false"},
		{"0", "0"}, {"-17", "-17"}, {"+4", "4"}, {"9223372036854775807", "9223372036854775807"},
		{"9223372036854775808", "9223372036854775808N"}, {"12N", "12"}, {"123456789012345678901N", "123456789012345678901N"},
		{"1.5", "1.5"}, {"-2e3", "-2000.0"}, {"1.5M", "1.5M"}, {"1/3", "1/3"}, {"##Inf", "##Inf"}, {"##-Inf", "##-Inf"},
		{`"a\n\"\\\u00e9\t"`, `"a\n\"\\é\t"`}, {`""`, `""`}, {`"\ud83d\ude00\'"`, `"😀'"`}, {":key/word", ":key/word"}, {"sym-bol", "sym-bol"}, {`\a`, `\a`}, {`\newline`, `\newline`},
		{"[]", "[]"}, {"[1 2, 3]", "[1 2 3]"}, {"(1 :a)", "[1 :a]"}, {"#{1 2}", "#{1 2}"}, {"{:a 1 :b [2]}", "{:a 1, :b [2]}"},
		{"[[:r 1 nil] [:append 2 3]]", "[[:r 1 nil] [:append 2 3]]"}, {"[[:r 1] [:append 2 3]]", "[[:r 1] [:append 2 3]]"},
		{`#inst "2020"`, `#inst "2020"`}, {`#bytes "aGk="`, `#bytes "aGk="`}, {"[1 #_ 2 3] ; done", "[1 3]"}, {"#_ #_ 1 2 3", "3"},
	} {
		v, err := edn.ParseValue(c.text)
		if err != nil || v.String() != c.want {
			t.Errorf("%s: got %v, %v, want %s", c.text, v, err, c.want)
		}
	}
}

func TestTransactionsAreRecognised(t *testing.T) {
	for text, want := range map[string]histories.Kind{
		"[[:r 1 nil] [:append 1 2] [:w 3 4]]": histories.KindTxn,
		"[[:rp [:= 3] {1 3}]]":                histories.KindTxn,
		"[[:r 1 nil] [:send 1 2]]":            histories.KindList,
		"[[:r 1 nil] [1 2 3]]":                histories.KindList,
		"[[:r 1]]":                            histories.KindList,
		"[:r 1 nil]":                          histories.KindList,
		"[]":                                  histories.KindList,
	} {
		if v, err := edn.ParseValue(text); err != nil || v.Kind() != want {
			t.Errorf("%s: got %v, %v, want %v", text, v.Kind(), err, want)
		}
	}
}

const jepsen = `{:index 0, :time 10, :type :info, :process :nemesis, :f :start, :value nil}
; a comment
{:index 1 :time 11 :type :invoke :process 3 :f :cas :value [0 1] :debug {:node "n1"}}

{:index 2, :time 12, :type :info, :process 3, :f :cas, :value [0 1], :error [:timeout "slow"], :exception {:via [{:type java.lang.Exception}]}}
{:index 3, :time 13, :type :info, :process :nemesis, :f :start, :value [:isolated {"n1" #{"n2"}}], :phase :end}
{:index 4, :time 14, :type :info, :process :clock, :f :bump}
`

func TestHistoriesOfEveryShape(t *testing.T) {
	lines := strings.Split(strings.ReplaceAll(strings.TrimSpace(jepsen), "; a comment\n", ""), "\n")
	for name, text := range map[string]string{
		"lines":   jepsen,
		"vector":  "[" + jepsen + "]",
		"list":    " (" + strings.Join(lines, " ") + ") ; end",
		"records": strings.ReplaceAll(jepsen, "{:index", "#jepsen.history.Op{:index"),
		"no end":  strings.TrimSpace(jepsen),
	} {
		h, err := edn.ReadHistory(iotest.OneByteReader(strings.NewReader(text)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ops, err := histories.Collect(h)
		if err != nil || len(ops) != 5 {
			t.Fatalf("%s: %v, %v", name, ops, err)
		}
		if ops[0].Process != histories.Nemesis || h.ProcessName(ops[4].Process) != "clock" || ops[3].Phase != histories.End ||
			ops[2].Error.String() != `[:timeout "slow"]` || ops[1].Field("debug").String() != `{:node "n1"}` || ops[2].Time != 12 {
			t.Errorf("%s: got %v", name, ops)
		}
	}
}

func TestMissingFields(t *testing.T) {
	h, err := edn.ReadHistory(strings.NewReader("{:type :invoke, :process 0, :f :read}\n{:type :ok, :process 0, :f :read, :value 3}"))
	if err != nil {
		t.Fatal(err)
	}
	op, err := h.Nth(1)
	if err != nil || op.Index != 1 || op.Time != time.Nanosecond {
		t.Errorf("got %v, %v", op, err)
	}
	if h, err := edn.ReadHistory(strings.NewReader(" \n")); err != nil {
		t.Error(err)
	} else if n, _ := h.Len(); n != 0 {
		t.Errorf("%d operations in an empty text", n)
	}
}

func TestErrorsSayWhere(t *testing.T) {
	ok := "{:type :ok, :process 0, :f :r}\n"
	for _, c := range []struct{ text, want string }{
		{"{:type :ok, :process 0", "line 1, column 23: the text ends"},
		{ok + ok + "  {:type :great, :process 0}", "line 3, column 10: :great cannot be the :type"},
		{ok + "{:type :ok}", "line 2, column 1: an operation has no :process"},
		{ok + "{:process 1}", "line 2, column 1: an operation has no :type"},
		{ok + "{:type :ok :process -1}", "line 2, column 21: -1 cannot be the :process"},
		{ok + "{:type :ok :process 1 :index :a}", "line 2, column 30: :a cannot be the :index"},
		{ok + "{:type :ok :process 1 :value [1 2}", `line 2, column 34: unexpected '}', ']' should come`},
		{ok + "{:type :ok :process 1 :value {1}}", "a map has a key without a value"},
		{ok + `{:type :ok :process 1 :value "abc`, "a string does not end"},
		{ok + `{:type :ok :process 1 :value "\q"}`, `line 2, column 32: unknown escape \q`},
		{ok + "{:type :ok :process 1 :value 1x}", `"1x" is no number`},
		{ok + "17", "line 2, column 1: an operation should come, which is a map, not '1'"},
		{"[" + ok, `begins with '[' but does not end with ']'`},
		{"[" + ok + "] 3", "line 2, column 3: there is something behind the end"},
		{ok + "{:type :ok :process 1 :value " + strings.Repeat("[", 1000), "nested more than"},
		{"{:type :ok, :process 0, :index 1}\n{:type :ok, :process 0, :index 1}", "line 2: operation at position 1"},
	} {
		_, err := edn.ReadHistory(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: got %v, want %s", c.text, err, c.want)
		}
	}
	// Far into a long file, after the buffer has moved on.
	_, err := edn.ReadHistory(strings.NewReader(strings.Repeat(ok, 100000) + "  oops"))
	var se *edn.SyntaxError
	if !errors.As(err, &se) || se.Line != 100001 || se.Column != 3 {
		t.Errorf("got %v", err)
	}
	broken := errors.New("disk on fire")
	if _, err := edn.ReadHistory(io.MultiReader(strings.NewReader(ok), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func drawValue(t *rapid.T, depth int) histories.Value {
	kinds := 8
	if depth > 0 {
		kinds = 14
	}
	sub := func() histories.Value { return drawValue(t, depth-1) }
	several := func() (vs []histories.Value) {
		for range rapid.IntRange(0, 4).Draw(t, "n") {
			vs = append(vs, sub())
		}
		return vs
	}
	word := rapid.StringMatching(`[a-z][a-z0-9-]*`)
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
		return histories.Keyword(word.Draw(t, "keyword"))
	case 6:
		return histories.Bytes(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	case 7:
		return histories.Tagged("symbol", histories.String(word.Filter(func(s string) bool {
			return s != "nil" && s != "true" && s != "false"
		}).Draw(t, "symbol")))
	case 8:
		return histories.Ints(rapid.SliceOf(rapid.Int64()).Draw(t, "ints")...)
	case 9:
		return histories.List(append(several(), histories.Nil())...) // with nil it is never a transaction
	case 10:
		return histories.SetOf(several()...)
	case 11:
		return histories.MapOf(histories.Entry{Key: histories.Keyword("k"), Value: sub()}, histories.Entry{Key: histories.Int(1), Value: sub()})
	case 12:
		return histories.Tagged(word.Draw(t, "tag")+"x", sub())
	default:
		mops := []histories.Mop{histories.Append(sub(), sub())}
		for range rapid.IntRange(0, 3).Draw(t, "mops") {
			mops = append(mops, histories.ReadOf(sub(), sub()))
		}
		return histories.Txn(mops...)
	}
}

// What is written is read back the same, in whatever pieces it arrives.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b histories.Builder
		b.Names = histories.Names{"nemesis", "big clock"}
		for i := range rapid.IntRange(0, 10).Draw(t, "ops") {
			op := histories.Op{
				Index: int64(2 * i), Time: time.Duration(i), Process: histories.Process(rapid.IntRange(-2, 3).Draw(t, "process")),
				Type: histories.Type(rapid.IntRange(0, 3).Draw(t, "type")), F: rapid.SampledFrom([]string{"", "read", "a b", "x/y"}).Draw(t, "f"),
				Value: drawValue(t, 3), Phase: histories.Phase(rapid.IntRange(0, 2).Draw(t, "phase")),
			}
			if rapid.Bool().Draw(t, "error") {
				op.Error = drawValue(t, 1)
				op.Extra = []histories.Field{{Name: rapid.SampledFrom([]string{"node", "two words", "a\"b"}).Draw(t, "field"), Value: drawValue(t, 2)}}
			}
			if err := b.Add(op); err != nil {
				t.Fatal(err)
			}
		}
		h := b.History()
		var buf bytes.Buffer
		if err := edn.WriteHistory(&buf, h); err != nil {
			t.Fatal(err)
		}
		got, err := edn.ReadHistory(iotest.HalfReader(bytes.NewReader(buf.Bytes())))
		if err != nil {
			t.Fatalf("%v\n%s", err, buf.Bytes())
		}
		want, _ := histories.Collect(h)
		ops, _ := histories.Collect(got)
		if len(ops) != len(want) {
			t.Fatalf("%d operations, want %d", len(ops), len(want))
		}
		for i := range want {
			if want[i].Process < 0 { // numbers of named processes are given in order of appearance
				if got.ProcessName(ops[i].Process) != h.ProcessName(want[i].Process) {
					t.Fatalf("process %s, want %s", got.ProcessName(ops[i].Process), h.ProcessName(want[i].Process))
				}
				ops[i].Process = want[i].Process
			}
			if !ops[i].Equal(want[i]) {
				t.Fatalf("got  %v\nwant %v\nfrom %s", ops[i], want[i], buf.Bytes())
			}
		}
	})
}

// corpus returns the folder of histories of other origin, if it is there.
func corpus(t testing.TB) string {
	dir := os.Getenv("JEPSEN_CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "corpus")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no corpus of histories: %v", err)
	}
	return dir
}

func TestCorpusLoadsAndComesBack(t *testing.T) {
	n := 0
	err := filepath.WalkDir(corpus(t), func(path string, d os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".edn" {
			return err
		}
		n++
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		h, err := edn.ReadHistory(f)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		var buf bytes.Buffer
		if err := edn.WriteHistory(&buf, h); err != nil {
			return err
		}
		again, err := edn.ReadHistory(&buf)
		if err != nil {
			return fmt.Errorf("%s, written back: %w", path, err)
		}
		a, _ := histories.Collect(h)
		b, _ := histories.Collect(again)
		for i := range a {
			if !a[i].Equal(b[i]) {
				return fmt.Errorf("%s: %v came back as %v", path, a[i], b[i])
			}
		}
		return nil
	})
	if err != nil || n == 0 {
		t.Errorf("%d files: %v", n, err)
	}
	t.Logf("%d files", n)
}

func sample(n int) []byte {
	var buf bytes.Buffer
	for i := range n / 2 {
		fmt.Fprintf(&buf, "{:type :invoke, :process %d, :f :txn, :value [[:r %d nil] [:append 9 %d]], :time %d, :index %d}\n", i%20, i%10, i, i*1000, 2*i)
		fmt.Fprintf(&buf, "{:type :ok, :process %d, :f :txn, :value [[:r %d [1 2 3 4 5 6 7 8]] [:append 9 %d]], :time %d, :index %d}\n", i%20, i%10, i, i*1000+7, 2*i+1)
	}
	return buf.Bytes()
}

func BenchmarkRead(b *testing.B) {
	const n = 200_000
	text := sample(n)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r := edn.NewReader(bytes.NewReader(text))
		for {
			if _, err := r.Read(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

func BenchmarkWrite(b *testing.B) {
	const n = 200_000
	h, err := edn.ReadHistory(bytes.NewReader(sample(n)))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := edn.WriteHistory(io.Discard, h); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

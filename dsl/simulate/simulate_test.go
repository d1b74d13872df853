package simulate_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/dsl/simulate"
	"github.com/jepsentest/go/histories"
	"pgregory.net/rapid"
)

func reads(n int) dsl.Generator { return dsl.Limit(n, dsl.Repeat(dsl.Once(dsl.Op{F: "read"}))) }

// The golden histories show how time passes, and what each completer does.
func TestGoldenHistories(t *testing.T) {
	ops := dsl.Any(dsl.Clients(reads(8)), dsl.Nemesis(dsl.Seq(dsl.Sleep(15), dsl.Once(dsl.Op{F: "kill"}))))
	for name, o := range map[string]simulate.Options{
		"quick":     {Complete: simulate.Quick},
		"perfect":   {Complete: simulate.Perfect},
		"imperfect": {Complete: simulate.Imperfect(2)},
		"crashing":  {Complete: simulate.Crashing},
		"slow":      {Complete: simulate.After(time.Second, histories.Fail), Clients: 3},
		"cut":       {Max: 3},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := simulate.Run(ops, o)
			if err != nil {
				t.Fatal(err)
			}
			simulate.Golden(t, filepath.Join("testdata", name+".txt"), h)
		})
	}
}

type noted struct{ text string }

func (n *noted) Helper()                           {}
func (n *noted) Fatalf(format string, args ...any) { n.text = fmt.Sprintf(format, args...) }

func TestGoldenSaysWhereItDiffers(t *testing.T) {
	h, err := simulate.Run(reads(2), simulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "new", "history.txt")
	t.Setenv(simulate.RewriteVariable, "1")
	simulate.Golden(t, file, h)
	t.Setenv(simulate.RewriteVariable, "")
	simulate.Golden(t, file, h)
	if err := os.WriteFile(file, []byte(strings.Replace(simulate.Format(h), "ok read", "fail read", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	var n noted
	simulate.Golden(&n, file, h)
	if !strings.Contains(n.text, "line 3 is") || !strings.Contains(n.text, "fail read") {
		t.Errorf("got %q", n.text)
	}
	simulate.Golden(&n, file+".missing", h)
	if !strings.Contains(n.text, simulate.RewriteVariable) {
		t.Errorf("got %q", n.text)
	}
}

// Completions come in the order of their times and, at the same time, in that
// of their invocations; none is lost.
func TestOrderOfCompletions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		delays := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 60).Draw(t, "delays")
		i := 0
		var due []time.Duration
		h, err := simulate.Run(dsl.Clients(reads(len(delays))), simulate.Options{Clients: 10, Complete: func(inv histories.Op) histories.Op {
			inv.Time += time.Duration(delays[i])
			inv.Type = histories.OK
			inv.Value = histories.Int(int64(i))
			due = append(due, inv.Time)
			i++
			return inv
		}})
		if err != nil || len(h) != 2*len(delays) {
			t.Fatalf("%d entries, %v", len(h), err)
		}
		last := -1
		for _, op := range h {
			if op.IsInvocation() {
				continue
			}
			n, _ := op.Value.Int()
			if op.Time != due[n] || last >= 0 && (due[last] > due[n] || due[last] == due[n] && last > int(n)) {
				t.Fatalf("operation %d completes after operation %d:\n%s", n, last, simulate.Format(h))
			}
			last = int(n)
		}
	})
}

func TestStuck(t *testing.T) {
	for name, g := range map[string]dsl.Generator{
		"pending forever": new(dsl.Promise),
		"waiting forever": dsl.Map(func(ctx dsl.Context, o dsl.Op) dsl.Op { o.Time = ctx.Time + 1; return o }, reads(1)),
	} {
		if _, err := simulate.Run(g, simulate.Options{}); !errors.Is(err, simulate.ErrStuck) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func ExampleInvocations() {
	h, err := simulate.Invocations(dsl.Clients(dsl.Delay(time.Second, reads(3))), simulate.Options{})
	if err != nil {
		panic(err)
	}
	for _, op := range h {
		fmt.Println(op.Time, op.Process, op.F)
	}
	// Output:
	// 0s 0 read
	// 1s 1 read
	// 2s 0 read
}

func ExampleImperfect() {
	h, err := simulate.Run(dsl.Clients(reads(3)), simulate.Options{Clients: 1, Complete: simulate.Imperfect(1)})
	if err != nil {
		panic(err)
	}
	fmt.Print(simulate.Format(h))
	// Output:
	// 0 0 invoke read nil
	// 10 0 fail read nil
	// 10 0 invoke read nil
	// 20 0 info read nil
	// 20 1 invoke read nil
	// 30 1 ok read nil
}

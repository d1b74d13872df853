package dsl_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/dsl/dsltest"
	"github.com/jepsentest/go/dsl/simulate"
	"github.com/jepsentest/go/histories"
)

// The recipes of docs/generators.md. The comment of each is its text there: the
// first sentence is the title.

// Mix reads and writes at 100 Hz for a minute while the nemesis partitions every 10 s.
func recipePartitions() dsl.Generator {
	read := dsl.Repeat(dsl.Once(dsl.Op{F: "read"}))
	write := dsl.Ops(func(ctx dsl.Context) dsl.Op {
		return dsl.Op{F: "write", Value: histories.Int(ctx.Rand().Int64N(5))}
	})
	partitions := dsl.Cycle(dsl.Seq(
		dsl.Sleep(5*time.Second),
		dsl.Once(dsl.Op{F: "start-partition"}),
		dsl.Sleep(5*time.Second),
		dsl.Once(dsl.Op{F: "stop-partition"})))
	return dsl.Phases(
		dsl.TimeLimit(time.Minute, dsl.Any(
			dsl.Clients(dsl.Stagger(time.Second/100, dsl.Mix(read, write))),
			dsl.Nemesis(partitions))),
		dsl.Nemesis(dsl.Once(dsl.Op{F: "stop-partition"})))
}

// Write ten times as often as you read. Weights say how likely each is drawn.
func recipeWeights() dsl.Generator {
	return dsl.Clients(dsl.Limit(1000, dsl.MixWeighted(
		dsl.Weighted{Weight: 10, Gen: dsl.Repeat(dsl.Invocation("write", histories.Int(1)))},
		dsl.Weighted{Weight: 1, Gen: dsl.Repeat(dsl.Once(dsl.Op{F: "read"}))})))
}

// Write every value once. A function of the context has no memory; a generator
// with a state of its own is a few lines, see "Writing a generator" below. For a
// given number, write them down.
func recipeUnique() dsl.Generator {
	var writes []dsl.Generator
	for i := range int64(100) {
		writes = append(writes, dsl.Invocation("write", histories.Int(i)))
	}
	return dsl.Clients(dsl.Stagger(10*time.Millisecond, dsl.Seq(writes...)))
}

// Let every client read once at the end, when all faults are over. Phases wait
// for what is in flight, EachThread gives each thread a copy, UntilOK tries again.
func recipeFinalReads() dsl.Generator {
	add := dsl.Ops(func(ctx dsl.Context) dsl.Op { return dsl.Op{F: "add", Value: histories.Int(1)} })
	return dsl.Phases(
		dsl.TimeLimit(10*time.Second, dsl.Clients(dsl.Stagger(10*time.Millisecond, add))),
		dsl.Nemesis(dsl.Once(dsl.Op{F: "heal"})),
		dsl.Nemesis(dsl.Sleep(5*time.Second)),
		dsl.Clients(dsl.EachThread(dsl.UntilOK(dsl.Limit(10, dsl.Repeat(dsl.Once(dsl.Op{F: "read"})))))))
}

// Keep readers and writers apart. The first two client threads only write, the
// others only read, so that slow writes cannot crowd out the reads.
func recipeReserve() dsl.Generator {
	return dsl.Clients(dsl.TimeLimit(time.Second, dsl.Stagger(time.Millisecond, dsl.Reserve(
		[]dsl.Range{{Threads: 2, Gen: dsl.Repeat(dsl.Invocation("write", histories.Int(1)))}},
		dsl.Repeat(dsl.Once(dsl.Op{F: "read"}))))))
}

// Check many registers, each for a short time. Linearizability is judged per key,
// and fast when each key has few operations: ten threads on a key, 200 operations,
// then the next key.
func recipeKeys() dsl.Generator {
	return dsl.TimeLimit(time.Minute, dsl.IndependentConcurrent(10, dsl.IntKeys(),
		func(key histories.Value) dsl.Generator {
			read := dsl.Repeat(dsl.Once(dsl.Op{F: "read"}))
			write := dsl.Ops(func(ctx dsl.Context) dsl.Op {
				return dsl.Op{F: "write", Value: histories.Int(ctx.Rand().Int64N(5))}
			})
			return dsl.Limit(200, dsl.ProcessLimit(20, dsl.Stagger(10*time.Millisecond,
				dsl.Reserve([]dsl.Range{{Threads: 5, Gen: read}}, write))))
		}))
}

// Work on one key after the other, all threads together. Good for what is
// expensive to set up, a table for instance.
func recipeSequentialKeys() dsl.Generator {
	tables := dsl.KeysOf(histories.String("a"), histories.String("b"))
	return dsl.Clients(dsl.IndependentSequential(tables, func(histories.Value) dsl.Generator {
		return dsl.Phases(
			dsl.Once(dsl.Op{F: "create-table"}),
			dsl.Limit(50, dsl.Repeat(dsl.Once(dsl.Op{F: "insert"}))))
	}))
}

// Let faults overlap. Each kind has a named thread of its own, and its own pace.
// The test must have the threads: Nemeses "nemesis" and "clock".
func recipeLanes() dsl.Generator {
	lane := func(name, begin, end string, every time.Duration) dsl.Generator {
		return dsl.Named(name, dsl.Stagger(every, dsl.FlipFlop(
			dsl.Repeat(dsl.Once(dsl.Op{F: begin})), dsl.Repeat(dsl.Once(dsl.Op{F: end})))))
	}
	return dsl.TimeLimit(5*time.Minute, dsl.Any(
		dsl.Clients(dsl.Stagger(100*time.Millisecond, dsl.Repeat(dsl.Once(dsl.Op{F: "read"})))),
		lane("nemesis", "kill", "start", 10*time.Second),
		lane("clock", "skew", "reset", 7*time.Second)))
}

// Run the workload for as long as the script of the nemesis takes. ShortestAny is
// done when one of its generators is.
func recipeScript() dsl.Generator {
	script := dsl.Seq(
		dsl.Sleep(10*time.Second), dsl.Once(dsl.Op{F: "kill", Value: histories.String("n1")}),
		dsl.Sleep(20*time.Second), dsl.Once(dsl.Op{F: "start", Value: histories.String("n1")}),
		dsl.Sleep(10*time.Second))
	return dsl.ShortestAny(
		dsl.Clients(dsl.Stagger(50*time.Millisecond, dsl.Repeat(dsl.Once(dsl.Op{F: "read"})))),
		dsl.Nemesis(script))
}

// Alternate calm and storm. Each window keeps its generator's state until it
// comes around again.
func recipeWindows() dsl.Generator {
	ops := dsl.Repeat(dsl.Once(dsl.Op{F: "read"}))
	return dsl.Clients(dsl.TimeLimit(time.Minute, dsl.CycleTimes(
		dsl.Window{For: 10 * time.Second, Gen: dsl.Stagger(time.Second, ops)},
		dsl.Window{For: 5 * time.Second, Gen: dsl.Stagger(10*time.Millisecond, ops)})))
}

// Let the load grow from 10 to 1000 operations a second, in a minute.
func recipeRamp() dsl.Generator {
	pace := func(at time.Duration) time.Duration {
		rate := 10 + 990*min(at.Seconds()/60, 1)
		return time.Duration(float64(time.Second) / rate)
	}
	return dsl.Clients(dsl.TimeLimit(time.Minute, dsl.StaggerBy(pace, dsl.Repeat(dsl.Once(dsl.Op{F: "read"})))))
}

// Grow the load until latency doubles. Each round lasts two seconds and has half
// again the rate of the one before. Watch measures; what it has seen decides
// whether there is another round.
func recipeSaturate() dsl.Generator {
	begun := map[histories.Process]time.Duration{}
	var first, mean, count time.Duration // mean and count: of this round
	watch := func(ev *histories.Op) {
		if ev.IsInvocation() {
			begun[ev.Process] = ev.Time
			return
		}
		count++
		mean += (ev.Time - begun[ev.Process] - mean) / count
		delete(begun, ev.Process)
	}
	var rounds []dsl.Generator
	for rate := 10.0; rate < 10_000; rate *= 1.5 {
		rounds = append(rounds, dsl.Synchronize(dsl.Lazy(func() dsl.Generator {
			if first == 0 {
				first = mean
			}
			if mean > 2*first {
				return nil
			}
			mean, count = 0, 0
			return dsl.TimeLimit(2*time.Second, dsl.Stagger(time.Duration(float64(time.Second)/rate),
				dsl.Repeat(dsl.Once(dsl.Op{F: "read"}))))
		})))
	}
	return dsl.Clients(dsl.Watch(watch, dsl.Seq(rounds...)))
}

// Have at most three operations in flight, however many clients there are.
func recipeConcurrency() dsl.Generator {
	return dsl.Clients(dsl.ConcurrencyLimit(3, dsl.Limit(100, dsl.Repeat(dsl.Once(dsl.Op{F: "backup"})))))
}

// Create a table once, whoever manages to, before the work begins.
func recipeSetup() dsl.Generator {
	return dsl.Clients(dsl.Then(
		dsl.UntilOK(dsl.ConcurrencyLimit(1, dsl.Limit(10, dsl.Repeat(dsl.Once(dsl.Op{F: "create-table"}))))),
		dsl.Limit(100, dsl.Repeat(dsl.Once(dsl.Op{F: "insert"})))))
}

// Strike where the database is weak. What must be looked up, here who leads, is
// prepared in the background, once for each fault and only when it is wanted.
func recipePrepare() dsl.Generator {
	leader := func() string { return "n3" } // asks the database
	return dsl.TimeLimit(time.Minute, dsl.Any(
		dsl.Clients(dsl.Stagger(100*time.Millisecond, dsl.Repeat(dsl.Once(dsl.Op{F: "read"})))),
		dsl.Nemesis(dsl.Prepare(func(int) dsl.Generator {
			node := histories.String(leader())
			return dsl.Seq(dsl.Invocation("kill", node), dsl.Sleep(5*time.Second),
				dsl.Invocation("start", node), dsl.Sleep(5*time.Second))
		}))))
}

// Stop after the third failure. OnUpdate decides what the generator becomes.
func recipeStop() dsl.Generator {
	failures := 0
	return dsl.Clients(dsl.OnUpdate(func(g dsl.Generator, ctx dsl.Context, ev *histories.Op) dsl.Generator {
		if ev.Type == histories.Fail {
			failures++
		}
		if failures >= 3 {
			return nil
		}
		return g.Update(ctx, ev)
	}, dsl.Limit(1000, dsl.Repeat(dsl.Once(dsl.Op{F: "read"})))))
}

// Read every key that was used. The tracker sees the keys of transactions and
// tuples; the batches are made when the last phase begins.
func recipeTrack() dsl.Generator {
	keys := new(dsl.KeyTracker)
	work := dsl.Ops(func(ctx dsl.Context) dsl.Op {
		key := histories.Int(ctx.Rand().Int64N(30))
		return dsl.Op{F: "txn", Value: histories.Txn(histories.Append(key, histories.Int(1)))}
	})
	return dsl.Clients(dsl.Phases(
		keys.Watch(dsl.Limit(200, work)),
		keys.Batches(8, func(from, to int64) dsl.Generator {
			var reads []histories.Mop
			for k := from; k < to; k++ {
				reads = append(reads, histories.Read(histories.Int(k)))
			}
			return dsl.Invocation("txn", histories.Txn(reads...))
		})))
}

// Combine two workloads whose operations have the same names. The client tells
// them apart by the new names.
func recipeRename() dsl.Generator {
	set := dsl.Mix(dsl.Repeat(dsl.Invocation("add", histories.Int(1))), dsl.Repeat(dsl.Once(dsl.Op{F: "read"})))
	queue := dsl.Mix(dsl.Repeat(dsl.Invocation("add", histories.Int(1))), dsl.Repeat(dsl.Once(dsl.Op{F: "take"})))
	return dsl.Clients(dsl.Limit(500, dsl.Mix(
		dsl.RenameF(map[string]string{"add": "set-add", "read": "set-read"}, set),
		dsl.RenameF(map[string]string{"add": "enqueue", "take": "dequeue"}, queue))))
}

// Explore many short runs. After every hundred operations a coin decides whether
// the run is over: what a fuzzer wants.
func recipeExplore() dsl.Generator {
	return dsl.Clients(dsl.EndEarly(100, 0.1, dsl.Repeat(dsl.Once(dsl.Op{F: "read"}))))
}

// Find out what a generator does. Trace logs every question and event; Validate
// says which of many generators broke the contract.
func recipeDebug() dsl.Generator {
	var log bytes.Buffer
	logf := func(format string, args ...any) { fmt.Fprintf(&log, format+"\n", args...) }
	suspect := dsl.Limit(3, dsl.Repeat(dsl.Once(dsl.Op{F: "read"})))
	return dsl.Clients(dsl.Trace(logf, "suspect", dsl.Validate("suspect", suspect)))
}

var recipes = []func() dsl.Generator{recipePartitions, recipeWeights, recipeUnique, recipeFinalReads, recipeReserve,
	recipeKeys, recipeSequentialKeys, recipeLanes, recipeScript, recipeWindows, recipeRamp, recipeSaturate, recipeConcurrency,
	recipeSetup, recipePrepare, recipeStop, recipeTrack, recipeRename, recipeExplore, recipeDebug}

// slower takes longer the more is in flight: a database with one processor.
func slower() simulate.Completer {
	var idleAt time.Duration
	return func(inv histories.Op) histories.Op {
		idleAt = max(idleAt, inv.Time) + 5*time.Millisecond
		op := simulate.After(idleAt-inv.Time, histories.OK)(inv)
		return op
	}
}

func TestRecipesRun(t *testing.T) {
	for i, recipe := range recipes {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			h := run(t, recipe(), simulate.Options{Clients: 20, Named: []string{"nemesis", "clock"}, Complete: slower(), Max: 100_000})
			if len(h) < 4 || len(h) > 190_000 {
				t.Errorf("%d entries", len(h))
			}
		})
	}
}

type counter int64

func (c counter) Op(ctx dsl.Context) dsl.Offer {
	op, ok := ctx.Fill(dsl.Op{F: "write", Value: histories.Int(int64(c))})
	if !ok {
		return dsl.Offer{State: dsl.Pending} // nobody is free
	}
	return dsl.Offer{State: dsl.Ready, Op: op, Next: c + 1}
}

func (c counter) Update(dsl.Context, *histories.Op) dsl.Generator { return c }

func TestGeneratorOfTheGuide(t *testing.T) {
	dsltest.Check(t, counter(0))
	dsltest.Check(t, dsl.Clients(dsl.Filter(func(o dsl.Op) bool { v, _ := o.Value.Int(); return v%2 == 0 }, dsl.Limit(50, counter(0)))))
	src, err := os.ReadFile("recipes_test.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := bytes.Cut(src, []byte("\ntype counter"))
	code, _, _ = bytes.Cut(code, []byte("\n\nfunc Test"))
	if !bytes.Contains(doc, code) {
		t.Errorf("%s has another counter", guide)
	}
}

const (
	guide       = "../docs/generators.md"
	recipesFrom = "<!-- recipes -->\n"
	recipesTo   = "<!-- end of recipes -->\n"
)

// The guide has the recipes as they are here. With JEPSEN_REWRITE=1 in the
// environment it is brought up to date.
func TestGuideHasTheRecipes(t *testing.T) {
	src, err := os.ReadFile("recipes_test.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "recipes_test.go", src, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	n := 0
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(f.Name.Name, "recipe") {
			continue
		}
		n++
		title, text, _ := strings.Cut(strings.Join(strings.Fields(f.Doc.Text()), " "), ". ")
		fmt.Fprintf(&out, "\n### %d. %s\n\n", n, strings.TrimSuffix(title, "."))
		if text != "" {
			out.WriteString(text + "\n\n")
		}
		fmt.Fprintf(&out, "```go\n%s\n```\n", src[fset.Position(f.Pos()).Offset:fset.Position(f.End()).Offset])
	}
	if n != len(recipes) {
		t.Errorf("%d recipes are written and %d are run", n, len(recipes))
	}
	doc, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(doc), recipesFrom)
	have, after, ok2 := strings.Cut(rest, recipesTo)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the recipes", guide)
	}
	want := out.String() + "\n"
	if have == want {
		return
	}
	if os.Getenv(simulate.RewriteVariable) == "1" {
		if err := os.WriteFile(guide, []byte(before+recipesFrom+want+recipesTo+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s has other recipes; %s=1 brings it up to date", guide, simulate.RewriteVariable)
}

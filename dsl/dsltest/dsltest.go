// Package dsltest checks that a generator keeps the contract of package dsl. It
// is for generators that one has written oneself:
//
//	func TestMyGenerator(t *testing.T) { dsltest.Check(t, myGenerator(8)) }
//
// The generator is run many times, under different seeds, next to other
// generators that use the same threads, with operations that succeed, fail and
// crash in any order, in view of all threads and of some. Checked is that
//
//   - asked twice in the same situation, it gives the same answer;
//   - it offers operations only to processes that are in view and free;
//   - it offers nothing for a time that is past, and asks to be woken only at
//     times that are to come;
//   - once done it stays done, at any later time and whatever happens: it offers
//     nothing more, and calls itself pending at most while some thread is busy;
//   - it takes any event in its stride, also those of operations that it never
//     made, with values that it does not know;
//   - it gives the same operations whether it may reuse memory or not, and was
//     not changed by having been run: it can be run again.
//
// It does not check what a generator is for: for that, see dsl/simulate.
package dsltest

import (
	"fmt"
	"strings"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/histories"
)

// TB is the part of testing.TB that is used; rapid.T and GinkgoT() have it too.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Options of a check. The zero value is a good choice.
type Options struct {
	// Clients is the number of client threads; 0 means 5.
	Clients int
	// Named are the names of further threads; nil means "nemesis" alone.
	Named []string
	// Runs is how many seeds are tried; 0 means 20.
	Runs int
	// Steps is after how many events a run ends, if the generator has not ended
	// before; 0 means 300.
	Steps int
	// Alone leaves out the other generators: all events are of operations of the
	// generator itself.
	Alone bool
}

func (o Options) withDefaults() Options {
	or := func(p *int, def int) {
		if *p <= 0 {
			*p = def
		}
	}
	or(&o.Clients, 5)
	or(&o.Runs, 20)
	or(&o.Steps, 300)
	if o.Named == nil {
		o.Named = []string{"nemesis"}
	}
	return o
}

// Check fails the test if g breaks the contract.
func Check(t TB, g dsl.Generator) {
	t.Helper()
	CheckFunc(t, Options{}, func() dsl.Generator { return g })
}

// CheckFunc is like [Check] for generators that can be used only once, such as
// those that prepare operations by input and output: every run has a new one.
func CheckFunc(t TB, o Options, g func() dsl.Generator) {
	t.Helper()
	o = o.withDefaults()
	for run := range o.Runs {
		var first string
		for _, immutably := range []bool{false, true} {
			r := newRun(o, uint64(run), immutably, g())
			if err := r.run(); err != nil {
				t.Fatalf("run %d (memory reused: %v): %v\nwhat happened:\n%s", run, !immutably, err, r.story())
				return
			}
			if story := r.log.String(); !immutably {
				first = story
			} else if story != first {
				t.Fatalf("run %d: it gives other operations when it must not reuse memory, or has run before:\n%s\nand not\n%s",
					run, tail(story), tail(first))
				return
			}
		}
	}
}

// tail returns the last lines of a text.
func tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// describe renders an answer with everything that those who ask may rely on.
func describe(o dsl.Offer) string {
	switch o.State {
	case dsl.Ready:
		return fmt.Sprintf("%s %v to process %v at %d (kind %d, %d extra fields)",
			o.Op.F, o.Op.Value, o.Op.Process, o.Op.Time, o.Op.Kind, len(o.Op.Extra))
	case dsl.Pending:
		return fmt.Sprintf("pending until %d", o.Wake)
	}
	return "done"
}

// oddValues are what operations of strangers have.
var oddValues = []histories.Value{
	{}, histories.Int(3), histories.String("odd"), histories.Bool(true),
	histories.Ints(1, 2), histories.Tuple(histories.Int(0), histories.Int(1)),
	histories.Tuple(histories.String("no key"), histories.Value{}),
	histories.Txn(histories.Append(histories.String("x"), histories.Int(1)), histories.Read(histories.Int(2))),
	histories.Txn(),
}

// someThreads restricts a generator to what it must do with: a part of the threads.
func someThreads(ctx dsl.Context, t dsl.Thread) bool { return t%2 == 0 || !ctx.IsClient(t) }

// farFuture is a time at which a generator that is done must be so still.
const farFuture = 1000 * time.Hour

package dsltest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/dsl/dsltest"
	"github.com/jepsentest/go/histories"
)

// failures is a test that notes how it failed.
type failures struct{ first string }

func (f *failures) Helper() {}
func (f *failures) Fatalf(format string, args ...any) {
	if f.first == "" {
		f.first = fmt.Sprintf(format, args...)
	}
}

// gen makes a generator of two functions.
type gen struct {
	op     func(ctx dsl.Context, next dsl.Generator) dsl.Offer
	update func(ctx dsl.Context, ev *histories.Op)
}

func (g *gen) Op(ctx dsl.Context) dsl.Offer { return g.op(ctx, g) }
func (g *gen) Update(ctx dsl.Context, ev *histories.Op) dsl.Generator {
	if g.update != nil {
		g.update(ctx, ev)
	}
	return g
}

func offer(ctx dsl.Context, next dsl.Generator, op dsl.Op) dsl.Offer {
	op, ok := ctx.Fill(op)
	if !ok {
		return dsl.Offer{State: dsl.Pending}
	}
	return dsl.Offer{State: dsl.Ready, Op: op, Next: next}
}

// Every way to break the contract is found, and told by name.
func TestBrokenGeneratorsAreFound(t *testing.T) {
	for want, make := range map[string]func() dsl.Generator{
		"asked twice": func() dsl.Generator {
			n := int64(0)
			return &gen{op: func(ctx dsl.Context, next dsl.Generator) dsl.Offer {
				n++
				return offer(ctx, next, dsl.Op{F: "x", Value: histories.Int(n)})
			}}
		},
		"which is busy": func() dsl.Generator {
			return &gen{op: func(ctx dsl.Context, next dsl.Generator) dsl.Offer {
				return dsl.Offer{State: dsl.Ready, Op: dsl.Op{F: "x", Process: ctx.Process(2), Time: ctx.Time}, Next: next}
			}}
		},
		"not in view": func() dsl.Generator {
			return &gen{op: func(ctx dsl.Context, next dsl.Generator) dsl.Offer {
				o := offer(ctx, next, dsl.Op{F: "x"})
				if !ctx.Has(1) {
					o.Op.Process = ctx.Process(1)
				}
				return o
			}}
		},
		"which is past": func() dsl.Generator {
			return &gen{op: func(ctx dsl.Context, next dsl.Generator) dsl.Offer {
				o := offer(ctx, next, dsl.Op{F: "x"})
				if o.Op.Time > 50 {
					o.Op.Time = 50
				}
				return o
			}}
		},
		"woken": func() dsl.Generator {
			return &gen{op: func(ctx dsl.Context, next dsl.Generator) dsl.Offer {
				return dsl.Offer{State: dsl.Pending, Wake: 1}
			}}
		},
		"it was done": func() dsl.Generator {
			return &gen{op: func(ctx dsl.Context, next dsl.Generator) dsl.Offer {
				if ctx.Time > 10 && ctx.Time < time.Hour {
					return dsl.Offer{}
				}
				return offer(ctx, next, dsl.Op{F: "x"})
			}}
		},
		"panic: no integer": func() dsl.Generator {
			return &gen{
				op: func(ctx dsl.Context, next dsl.Generator) dsl.Offer { return offer(ctx, next, dsl.Op{F: "x"}) },
				update: func(_ dsl.Context, ev *histories.Op) {
					if _, ok := ev.Value.Int(); !ok && !ev.Value.IsNil() {
						panic("no integer")
					}
				},
			}
		},
		"has run before": func() dsl.Generator { return new(forgetful) },
	} {
		var f failures
		g := make()
		dsltest.CheckFunc(&f, dsltest.Options{}, func() dsl.Generator { return g })
		if !strings.Contains(f.first, want) {
			t.Errorf("want %q, got %q", want, f.first)
		}
	}
}

// forgetful changes what the test wrote down when it is updated.
type forgetful struct{ n int64 }

func (g *forgetful) Op(ctx dsl.Context) dsl.Offer {
	return offer(ctx, g, dsl.Op{F: "x", Value: histories.Int(g.n)})
}

func (g *forgetful) Update(dsl.Context, *histories.Op) dsl.Generator {
	g.n++
	return g
}

func TestNothingIsAGenerator(t *testing.T) { dsltest.Check(t, nil) }

func ExampleCheck() {
	t := new(failures) // in a test, its *testing.T
	dsltest.Check(t, dsl.Limit(3, dsl.Repeat(dsl.Once(dsl.Op{F: "read"}))))
	fmt.Printf("%q", t.first)
	// Output: ""
}

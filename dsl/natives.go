package dsl

import (
	"fmt"
	"sync"
	"time"

	"github.com/jepsentest/go/histories"
)

// maxEmpty is how many times in a row a generator that makes generators may
// come up with one that is done at once. More means that it never will offer
// anything, and would hang the test.
const maxEmpty = 1000

func noProgress(what string) string {
	return fmt.Sprintf("dsl: %s made %d generators in a row that were done at once; it would never end. "+
		"Return nil to end it", what, maxEmpty)
}

// Once offers op a single time.
func Once(op Op) Generator { return (*once)(&op) }

type once Op

func (o *once) Op(ctx Context) (offer Offer) {
	t, ok := ctx.SomeFree()
	if !ok {
		return pending()
	}
	offer.State, offer.Op = Ready, Op(*o)
	offer.Op.Process = ctx.threads.procs[t]
	offer.Op.Time = max(o.Time, ctx.Time)
	return offer
}

func (o *once) Update(Context, *histories.Op) Generator { return o }

// Invocation offers op a single time; it is short for [Once] of an operation
// that has only an f and a value.
func Invocation(f string, v histories.Value) Generator { return Once(Op{F: f, Value: v}) }

// Sleep keeps one thread busy for d. To let a whole group wait, use [Delay],
// [Stagger] or phases.
func Sleep(d time.Duration) Generator {
	return Once(Op{Kind: SleepKind, F: "sleep", Value: histories.Int(int64(d))})
}

// Log writes a message to the log of the test.
func Log(message string) Generator {
	return Once(Op{Kind: LogKind, F: "log", Value: histories.String(message)})
}

// Ops calls f for an operation whenever one is needed, without end. f must not
// have effects. It is called anew whenever the generator is asked.
func Ops(f func(ctx Context) Op) Generator { return ops(f) }

type ops func(Context) Op

func (f ops) Op(ctx Context) (o Offer) {
	t, ok := ctx.SomeFree()
	if !ok {
		return pending()
	}
	o.State, o.Op, o.Next = Ready, f(ctx), f
	o.Op.Process = ctx.threads.procs[t]
	o.Op.Time = max(o.Op.Time, ctx.Time)
	return o
}

func (f ops) Update(Context, *histories.Op) Generator { return f }

// Seq runs generators one after the other, each until it is done. Events go to
// the one that is running. Nil generators are skipped.
func Seq(gs ...Generator) Generator {
	for len(gs) > 0 && gs[0] == nil {
		gs = gs[1:]
	}
	switch len(gs) {
	case 0:
		return nil
	case 1:
		return gs[0]
	}
	return &seq{head: gs[0], rest: gs[1:]}
}

type seq struct {
	head  Generator
	rest  []Generator
	other *seq
}

func (s *seq) twin() **seq { return &s.other }

func (s *seq) Op(ctx Context) Offer {
	head, rest := s.head, s.rest
	for {
		o := ask(head, ctx)
		switch {
		case o.State == Ready && len(rest) == 0:
			return o // the last one goes on alone
		case o.State == Ready:
			n := successor(s, ctx)
			n.head, n.rest = o.Next, rest
			o.Next = n
			return o
		case o.State == Pending || len(rest) == 0:
			return o
		}
		head, rest = rest[0], rest[1:]
	}
}

func (s *seq) Update(ctx Context, ev *histories.Op) Generator {
	if s.head == nil {
		return s
	}
	g := s.head.Update(ctx, ev)
	s = running(s, ctx)
	s.head = g
	return s
}

// Func calls f for a generator, runs that until it is done, calls f again, and
// so on; it is done when f returns nil. f is called anew whenever the generator
// is asked, so it must not have effects, and must return generators that have
// not begun. It may use ctx.Rand and ctx.Time.
func Func(f func(ctx Context) Generator) Generator { return &fn{f: f} }

type fn struct {
	f     func(Context) Generator
	cur   Generator
	other *fn
}

func (f *fn) twin() **fn { return &f.other }

func (f *fn) Op(ctx Context) Offer {
	cur := f.cur
	for range maxEmpty {
		if cur == nil {
			if cur = f.f(ctx); cur == nil {
				return Offer{}
			}
		}
		switch o := cur.Op(ctx); o.State {
		case Ready:
			n := successor(f, ctx)
			n.cur = o.Next
			o.Next = n
			return o
		case Pending:
			return o
		}
		cur = nil
	}
	panic(noProgress("Func"))
}

func (f *fn) Update(ctx Context, ev *histories.Op) Generator {
	if f.cur == nil {
		return f
	}
	g := f.cur.Update(ctx, ev)
	f = running(f, ctx)
	f.cur = g
	return f
}

// Lazy calls f once, when it is first asked for an operation, and is then what
// f returned. f may have effects, but must not block. Use it in one test only.
func Lazy(f func() Generator) Generator { return &lazy{sync.OnceValue(f)} }

type lazy struct{ f func() Generator }

func (l *lazy) Op(ctx Context) Offer                    { return ask(l.f(), ctx) }
func (l *lazy) Update(Context, *histories.Op) Generator { return l }

// Promise is a generator that is not known yet: it is pending until a generator
// has been delivered, and then that. It may be delivered from any goroutine.
type Promise struct {
	mu        sync.Mutex
	delivered bool
	g         Generator
}

// Deliver says what the promise is. Only the first call counts.
func (p *Promise) Deliver(g Generator) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.delivered {
		p.delivered, p.g = true, g
	}
}

// Op answers pending until a generator has been delivered.
func (p *Promise) Op(ctx Context) Offer {
	p.mu.Lock()
	g, ok := p.g, p.delivered
	p.mu.Unlock()
	if !ok {
		return pending()
	}
	return ask(g, ctx)
}

// Update does nothing: what was promised has not begun.
func (p *Promise) Update(Context, *histories.Op) Generator { return p }

package dsl

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/jepsentest/go/histories"
)

// preparePoll is how often a generator is asked whether what it needs is there.
const preparePoll = time.Millisecond

// Prepare is [Func] for operations that are made with input and output: that
// depend on what a database answers, say. It calls f(0) for a generator, runs
// that until it is done, then f(1), and so on, and is done when f returns nil.
//
// f may take its time. Each call is made once, in a goroutine of its own, at
// the first moment at which an operation of it is wanted; until it returns,
// Prepare is pending, and other generators and the clients go on. However often
// Prepare is asked, and whether its offers are taken or not, f is not called
// again for the same number: asking remains free of effects. In virtual time,
// which stands still meanwhile, f is waited for, so that simulations give the
// same history every time.
//
// f should not outlast the test: it gives up by returning nil. A panic in f is
// passed on to whoever asks. Use a Prepare in one test only, and not in [Cycle],
// [EachThread] and the like, which would begin again with what has been prepared.
func Prepare(f func(i int) Generator) Generator {
	return &prepare{now: newPreparation(f, 0)}
}

type prepare struct {
	// now is what is being prepared or worked on.
	now *preparation
	// cur is what has become of it, once begun.
	cur   Generator
	begun bool
	other *prepare
}

// preparation is one call of f.
type preparation struct {
	begin func()
	begun atomic.Bool
	ended chan struct{}
	// Valid when ended is closed.
	g        Generator
	panicked any
	// following returns the next call. All who ask get the same.
	following func() *preparation
}

func newPreparation(f func(int) Generator, i int) *preparation {
	p := &preparation{ended: make(chan struct{})}
	p.begin = sync.OnceFunc(func() {
		p.begun.Store(true)
		go func() {
			defer close(p.ended)
			defer func() { p.panicked = recover() }()
			p.g = f(i)
		}()
	})
	p.following = sync.OnceValue(func() *preparation { return newPreparation(f, i+1) })
	return p
}

// get returns the result, and false if it is not there yet.
func (p *preparation) get(ctx Context) (Generator, bool) {
	p.begin()
	if !ctx.VirtualTime() {
		select {
		case <-p.ended:
		default:
			return nil, false
		}
	}
	<-p.ended
	if p.panicked != nil {
		panic(p.panicked)
	}
	return p.g, true
}

func (p *prepare) twin() **prepare { return &p.other }

func (p *prepare) Op(ctx Context) Offer {
	now, cur, begun := p.now, p.cur, p.begun
	for range maxEmpty {
		if !begun {
			// Nothing can be used while all threads are busy, so nothing is begun.
			if _, free := ctx.SomeFree(); !free && !now.begun.Load() {
				return pending()
			}
			g, ok := now.get(ctx)
			switch {
			case !ok:
				return Offer{State: Pending, Wake: ctx.Time + preparePoll}
			case g == nil:
				return Offer{}
			}
			cur = g
		}
		switch o := ask(cur, ctx); o.State {
		case Ready:
			n := successor(p, ctx)
			n.now, n.cur, n.begun = now, o.Next, true
			o.Next = n
			return o
		case Pending:
			return o
		}
		now, cur, begun = now.following(), nil, false
	}
	panic(noProgress("Prepare"))
}

func (p *prepare) Update(ctx Context, ev *histories.Op) Generator {
	if p.cur == nil {
		return p
	}
	g := p.cur.Update(ctx, ev)
	p = running(p, ctx)
	p.cur = g
	return p
}

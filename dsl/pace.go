package dsl

import (
	"time"

	"github.com/jepsentest/go/histories"
)

// Stagger spaces the operations of g at random, d apart on average: the time
// between two is uniform between 0 and 2d. The rate is that of all threads
// together. The first operation is due at once.
//
// Operations that come late by up to eight times d (a clock that wakes late, no
// thread free for a moment) do not delay the later ones, so that the rate holds.
// What was missed in a longer pause is not caught up.
func Stagger(d time.Duration, g Generator) Generator { return spaced(d, nil, g, false) }

// staggerSlack is how late an operation may be, in mean intervals, without
// delaying those after it.
const staggerSlack = 8

// StaggerBy is [Stagger] with a mean that changes with time: d says what it is
// at the time of an operation. A load that grows, or comes in waves, is made
// with it. d must not have effects.
func StaggerBy(d func(at time.Duration) time.Duration, g Generator) Generator {
	return spaced(0, d, g, false)
}

// Delay spaces the operations of g evenly, d apart. The rate is that of all
// threads together. When operations come late, the next ones come sooner, until
// the schedule is met again.
func Delay(d time.Duration, g Generator) Generator { return spaced(d, nil, g, true) }

func spaced(d time.Duration, by func(time.Duration) time.Duration, g Generator, even bool) Generator {
	if g == nil {
		return nil
	}
	return &space{d: d, by: by, g: g, even: even}
}

type space struct {
	d     time.Duration
	by    func(time.Duration) time.Duration // in place of d, if not nil
	g     Generator
	even  bool
	begun bool
	next  time.Duration // when the next operation is due, once begun
	other *space
}

func (s *space) twin() **space { return &s.other }

func (s *space) Op(ctx Context) (o Offer) {
	o = s.g.Op(ctx)
	if o.State != Ready {
		return o
	}
	due := o.Op.Time
	if s.begun {
		if s.even {
			due = s.next // the schedule goes on from where it was, not from where it is late
		}
		o.Op.Time = max(o.Op.Time, s.next)
	}
	if o.Next == nil {
		return o
	}
	n := successor(s, ctx)
	n.g, n.begun = o.Next, true
	if s.even {
		n.next = due + s.d
	} else {
		n.next = o.Op.Time
		d := s.d
		if s.by != nil {
			d = s.by(o.Op.Time)
		}
		if s.begun && o.Op.Time-s.next <= staggerSlack*d {
			n.next = s.next
		}
		if d > 0 {
			n.next += time.Duration(ctx.Rand().Int64N(2 * int64(d)))
		}
	}
	o.Next = n
	return o
}

func (s *space) Update(ctx Context, ev *histories.Op) Generator {
	g := s.g.Update(ctx, ev)
	if g == nil {
		return nil
	}
	s = running(s, ctx)
	s.g = g
	return s
}

// Window is a part of the time, for [CycleTimes].
type Window struct {
	For time.Duration
	Gen Generator
}

// CycleTimes gives the time to one generator after the other, each for the
// length of its window, and begins again after the last; the first window that
// has anything in it begins with the first operation. A generator keeps its state from one of its windows to
// the next. An operation that would fall beyond the window in which it was
// offered is not taken then; operations in flight at the end of a window are not
// waited for. Events go to all. The window of a generator that is done, or nil,
// is empty; when all are done, so is the whole. Windows of no length are left out.
func CycleTimes(windows ...Window) Generator {
	w := &windowed{members: newBunch(len(windows))}
	for _, x := range windows {
		if x.For <= 0 {
			continue
		}
		w.ends = append(w.ends, w.period+x.For)
		w.period += x.For
		w.members.add(x.Gen, 1)
	}
	if w.period == 0 {
		return nil
	}
	return w
}

type windowed struct {
	ends    []time.Duration // of the windows, from the beginning of a cycle
	period  time.Duration
	members *bunch
	change  change
	begun   bool
	start   time.Duration // once begun
	other   *windowed
}

func (w *windowed) twin() **windowed { return &w.other }

func (w *windowed) Op(ctx Context) Offer {
	b := settle(ctx, w.members, &w.change)
	if !w.begun {
		return w.first(ctx, b)
	}
	now := ctx.Time
	into := (now - w.start) % w.period
	i := 0
	for into >= w.ends[i] {
		i++
	}
	end := now - into + w.ends[i]
	done := 0
	// One round through all windows, back to the one that it began with: those
	// after it are asked what they would do at their beginning.
	for visit := range len(w.ends) + 1 {
		at := ctx
		at.Time = now
		o := ask(b.gs[i], at)
		switch {
		case o.State == Done:
			if visit < len(w.ends) {
				done++
			}
		case o.State == Pending && now > ctx.Time:
			return Offer{State: Pending, Wake: now} // it may have something to say then
		case o.State == Pending:
			return Offer{State: Pending, Wake: sooner(o.Wake, end)}
		case o.Op.Time < end:
			return w.take(ctx, o, b, i, w.start)
		}
		if done == len(w.ends) {
			return Offer{}
		}
		now = end
		i = (i + 1) % len(w.ends)
		if end += w.ends[i]; i > 0 {
			end -= w.ends[i-1]
		}
	}
	return Offer{State: Pending, Wake: now}
}

// first makes the first operation: that of the first window that has any. The
// window begins with it, whenever that is.
func (w *windowed) first(ctx Context, b *bunch) (o Offer) {
	for i, g := range b.gs {
		if o = ask(g, ctx); o.State == Done {
			continue
		}
		if o.State == Ready {
			begin := o.Op.Time
			if i > 0 {
				begin -= w.ends[i-1]
			}
			return w.take(ctx, o, b, i, begin)
		}
		break
	}
	return o
}

// take makes o, which window i has made, the offer of the whole.
func (w *windowed) take(ctx Context, o Offer, b *bunch, i int, start time.Duration) Offer {
	if w.other == nil {
		b = b.clone()
	}
	n := successor(w, ctx)
	n.members, n.change, n.begun, n.start = b, change{i + 1, o.Next}, true, start
	o.Next = n
	return o
}

func (w *windowed) Update(ctx Context, ev *histories.Op) Generator {
	b := settle(ctx, w.members, &w.change)
	if b == w.members && (w.other == nil || ctx.ahead) {
		b = b.clone()
	}
	for i, g := range b.gs {
		if g != nil {
			b.set(i, g.Update(ctx, ev))
		}
	}
	w = running(w, ctx)
	w.members, w.change = b, change{}
	return w
}

package dsl

import (
	"time"

	"github.com/jepsentest/go/histories"
)

// Stagger spaces the operations of g at random, d apart on average: the time
// between two is uniform between 0 and 2d. The rate is that of all threads
// together. The first operation is due at once; what was missed is not caught up.
func Stagger(d time.Duration, g Generator) Generator { return spaced(d, nil, g, false) }

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
// length of its window, and begins again after the last; time is counted from
// the first operation. A generator keeps its state from one of its windows to
// the next. An operation that would fall beyond the window in which it was
// offered is not taken then; operations in flight at the end of a window are not
// waited for. Events go to all. It is done as soon as a generator is done in its
// window. Windows of no length are left out.
func CycleTimes(windows ...Window) Generator {
	w := &windowed{members: &bunch{}}
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
	start := w.start
	if !w.begun {
		start = ctx.Time
	}
	now := ctx.Time
	into := (now - start) % w.period
	i := 0
	for into >= w.ends[i] {
		i++
	}
	end := now - into + w.ends[i]
	// One round through all windows: those after the current one are asked what
	// they would do at their beginning.
	for range len(w.ends) + 1 {
		if b.gs[i] == nil {
			if now == ctx.Time {
				return Offer{}
			}
			return Offer{State: Pending, Wake: now} // it ends then
		}
		at := ctx
		at.Time = now
		o := b.gs[i].Op(at)
		switch {
		case o.State == Done && now > ctx.Time:
			return Offer{State: Pending, Wake: now}
		case o.State == Done:
			return o
		case o.State == Pending:
			wake := end
			if now > ctx.Time {
				wake = now // who is asked then may have something else to say
			} else {
				wake = sooner(o.Wake, end)
			}
			return Offer{State: Pending, Wake: wake}
		case o.Op.Time < end:
			if w.other == nil {
				b = b.clone()
			}
			n := successor(w, ctx)
			n.members, n.change, n.begun, n.start = b, change{i + 1, o.Next}, true, start
			o.Next = n
			return o
		}
		now = end
		i = (i + 1) % len(w.ends)
		length := w.ends[i]
		if i > 0 {
			length -= w.ends[i-1]
		}
		end = now + length
	}
	return Offer{State: Pending, Wake: now}
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

package folds

import "time"

// The three ways to come from chunks to a result. In each, an error found in a
// chunk counts only when everything before that chunk is part of the result: so
// the error of a fold, and whether it has one, does not depend on which worker
// was faster. What follows the chunk is not needed from then on.

// linear: one accumulator goes through all chunks. The worker that has the next
// chunk has the accumulator (see job.busy); others read ahead.
type linear[A, R any] run[A, R]

func (l *linear[A, R]) process(p part, lane int, start time.Duration) time.Duration {
	r := (*run[A, R])(l)
	acc, have, end, err := r.reduce(r.total, r.begun, &p, lane, start)
	stop := err == ErrStop
	if stop {
		err = nil
	}
	if err == nil && have {
		r.total, r.begun = acc, true
		stopped, failed := r.report(p.number)
		stop, err = stop || stopped, failed
	}
	r.folder.mu.Lock()
	r.folder.stats.Reduce += end - start
	r.busy = false
	r.out--
	r.pos = p.number + 1
	switch {
	case err != nil:
		r.settle(err)
	case stop:
		r.stop()
	case r.pos >= r.limit:
		r.settle(nil)
	}
	return end
}

// result is what became of a chunk, or of a run of chunks.
type result[A any] struct {
	acc  A
	have bool  // false if there was nothing to reduce
	stop bool  // Merge said that nothing that follows is needed
	err  error // in the last of the chunks
}

// ordered: chunks are reduced in parallel, and merged strictly from left to
// right. Results that wait for their turn are bounded by the window.
type ordered[A, R any] struct {
	*run[A, R]
	results map[int]result[A] // those that wait, by chunk
	merging bool              // a worker has the total
}

func (o *ordered[A, R]) process(p part, lane int, start time.Duration) time.Duration {
	var none A
	acc, have, end, err := o.reduce(none, false, &p, lane, start)
	f := o.folder
	f.mu.Lock()
	f.stats.Reduce += end - start
	o.out--
	if o.results == nil {
		o.results = make(map[int]result[A])
	}
	o.results[p.number] = result[A]{acc: acc, have: have, err: err}
	if err != nil {
		o.cut(p.number + 1)
	}
	if !o.merging {
		o.merging = true
		end = o.mergeReady(lane, end)
		o.merging = false
	}
	return end
}

// mergeReady merges all results whose turn has come.
func (o *ordered[A, R]) mergeReady(lane int, now time.Duration) time.Duration {
	f := o.folder
	for !o.settled {
		r, ok := o.results[o.pos]
		if !ok {
			break
		}
		delete(o.results, o.pos)
		if r.err != nil {
			o.settle(r.err)
			break
		}
		if r.have {
			chunk := o.pos
			f.mu.Unlock()
			end, stop, err := o.addToTotal(r.acc, chunk, lane, now)
			f.mu.Lock()
			f.stats.Combine += end - now
			now = end
			if err != nil {
				o.settle(err)
				break
			}
			if stop {
				o.stop()
				break
			}
			f.kick() // there is room now
		}
		o.pos++
	}
	if o.pos >= o.limit {
		o.settle(nil)
	}
	return now
}

func (o *ordered[A, R]) addToTotal(acc A, chunk, lane int, start time.Duration) (end time.Duration, stop bool, err error) {
	end = start
	if !o.begun {
		o.total, o.begun = acc, true
	} else if o.total, stop, end, err = o.merge(o.total, acc, chunk, lane, start); err != nil {
		return end, false, err
	}
	stopped, err := o.report(chunk)
	return end, stop || stopped, err
}

// tree: the results of neighbouring chunks are merged as soon as both are there.
// So there are no more of them than there are gaps in what was reduced: about as
// many as workers, and one for each time that a pass went elsewhere.
type tree[A, R any] struct {
	*run[A, R]
	idle []stretch[A] // those nobody is merging, in no order
}

// stretch is the result of the chunks [start, end).
type stretch[A any] struct {
	start, end int
	result[A]
}

func (t *tree[A, R]) process(p part, lane int, start time.Duration) time.Duration {
	var none A
	acc, have, now, err := t.reduce(none, false, &p, lane, start)
	f := t.folder
	f.mu.Lock()
	f.stats.Reduce += now - start
	t.out--
	s := stretch[A]{p.number, p.number + 1, result[A]{acc: acc, have: have, err: err}}
	for !t.settled {
		if s.stop || s.err != nil {
			t.cut(s.end)
		}
		if s.start == t.from && s.end >= t.limit {
			t.total, t.begun = s.acc, s.have
			t.settle(s.err)
			break
		}
		if s.start >= t.limit {
			break
		}
		left, right, ok := t.neighbour(s)
		if !ok {
			t.idle = append(t.idle, s)
			break
		}
		f.mu.Unlock()
		var end time.Duration
		s, end = t.join(left, right, lane, now)
		f.mu.Lock()
		f.stats.Combine += end - now
		now = end
	}
	return now
}

// neighbour takes out an idle stretch that touches s, and returns the two in order.
func (t *tree[A, R]) neighbour(s stretch[A]) (left, right stretch[A], ok bool) {
	for k, o := range t.idle {
		if o.end != s.start && o.start != s.end {
			continue
		}
		last := len(t.idle) - 1
		t.idle[k] = t.idle[last]
		t.idle[last] = stretch[A]{}
		t.idle = t.idle[:last]
		if o.end == s.start {
			return o, s, true
		}
		return s, o, true
	}
	return left, right, false
}

// join merges two stretches of which the first ends where the second starts.
func (t *tree[A, R]) join(a, b stretch[A], lane int, start time.Duration) (out stretch[A], end time.Duration) {
	out, end = stretch[A]{start: a.start, end: b.end}, start
	switch {
	case a.stop || a.err != nil:
		return a, start
	case b.err != nil:
		out.err = b.err
	case !a.have:
		out.result = b.result
	case !b.have:
		out.result = a.result
	default:
		out.have = true
		out.acc, out.stop, end, out.err = t.merge(a.acc, b.acc, b.start, lane, start)
		out.stop = out.stop || b.stop
	}
	return out, end
}

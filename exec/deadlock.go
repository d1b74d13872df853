package exec

import (
	"cmp"
	"maps"
	"slices"
)

// breakDeadlock looks for tasks that wait for one another in a circle, and fails the wait of
// one of them. It tells whether there was one.
//
// It has work to do only when every function that was started is parked and none wants its
// slot back: as long as something runs, a circle harms no one but itself, and when all comes
// to rest it is found. So the search costs a busy pool nothing, and one at rest time linear
// in the tasks waited for (but for sorting those that wait). It goes by age and chooses the
// youngest waiting task of the circle, so that the outcome does not depend on the order in
// which the waits began.
//
// A circle through another executor is not seen, nor is one through a goroutine that is not
// a task's.
func (st *state) breakDeadlock() bool {
	if st.free < st.size || len(st.queue) > 0 || len(st.executing) == 0 {
		return false
	}
	seen := make(map[*task]bool) // true while on the path, false once exhausted
	byAge := func(a, b *seat) int { return cmp.Compare(a.id, b.id) }
	for _, s := range slices.SortedFunc(maps.Keys(st.executing), byAge) {
		if victim := findCircle(s.task, seen); victim != nil {
			st.wake(victim, doomed)
			return true
		}
	}
	return false
}

// findCircle searches depth first from a task along what keeps tasks from being done. It
// returns the youngest waiting seat of the first circle it meets, or nil.
func findCircle(from *task, seen map[*task]bool) *seat {
	type step struct {
		t    *task
		next int // the next of its obstacles to follow
	}
	var path []step
	enter := func(t *task) {
		seen[t] = true
		path = append(path, step{t, 0})
	}
	if _, ok := seen[from]; !ok {
		enter(from)
	}
	for len(path) > 0 {
		top := &path[len(path)-1]
		t, more := top.t.obstacle(top.next)
		top.next++
		if !more {
			seen[top.t] = false
			path = path[:len(path)-1]
			continue
		}
		if t == nil {
			continue
		}
		onPath, ok := seen[t]
		if !ok {
			enter(t)
		} else if onPath {
			var victim *seat
			for i := len(path) - 1; ; i-- {
				s := path[i].t.seat
				if s != nil && s.awaits != nil && (victim == nil || s.id > victim.id) {
					victim = s
				}
				if path[i].t == t {
					return victim
				}
			}
		}
	}
	return nil
}

// obstacle returns the i-th task that must be finished before t can be: a dependency if t is
// pending, the task awaited if it is parked. It is nil if that is finished, or is beyond
// what this executor's lock protects.
func (t *task) obstacle(i int) (o *task, more bool) {
	switch {
	case t.state == Pending && i < len(t.inputs):
		o = t.inputs[i].dep
	case t.state == Running && i == 0:
		o = t.seat.awaits
	default:
		return nil, false
	}
	if o == nil || o.x != t.x || o.state == Done || o.state == Cancelled {
		return nil, true
	}
	return o, true
}

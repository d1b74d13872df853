package exec

import "fmt"

// CheckInvariants reports the first invariant of the executor's state that does not hold
// between two changes.
func CheckInvariants(x *Executor) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	st := &x.st
	holders := 0
	for s := range st.executing {
		if s.task == nil || s.task.seat != s {
			return fmt.Errorf("seat %d executes without a task", s.id)
		}
		if s.holds {
			holders++
		}
		if s.holds == (s.granted != nil) || s.holds && s.awaits != nil {
			return fmt.Errorf("seat %d holds and wants a slot, or neither", s.id)
		}
		if s.awaits != nil {
			if _, ok := s.awaits.waiters[s]; !ok && s.awaits.x == x || s.pos >= 0 {
				return fmt.Errorf("parked seat %d is queued or not registered", s.id)
			}
		}
	}
	if holders+st.free != st.size || st.free < 0 {
		return fmt.Errorf("%d holders and %d free slots, size %d", holders, st.free, st.size)
	}
	if st.free > 0 && len(st.queue) > 0 {
		return fmt.Errorf("%d free slots while %d are queued", st.free, len(st.queue))
	}
	if len(st.work) > 0 || len(st.log) > 0 {
		return fmt.Errorf("%d tasks unsettled, %d effects not taken", len(st.work), len(st.log))
	}
	for i, s := range st.queue {
		if s.pos != i || s.holds || (s.granted == nil) != (s.task.state == Pending) {
			return fmt.Errorf("seat %d queued at %d: %+v", s.id, i, s)
		}
		if parent := (i - 1) / 2; i > 0 && st.queue[parent].id > s.id {
			return fmt.Errorf("seat %d queued behind seat %d", st.queue[parent].id, s.id)
		}
	}
	// Every pending task is reached from a root, over links that agree with missing.
	pending := map[*task]bool{}
	stack := st.roots()
	for len(stack) > 0 {
		t := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if pending[t] {
			continue
		}
		if t.state == Pending {
			pending[t] = true
			missing := 0
			for i := range t.inputs {
				e := &t.inputs[i]
				if e.linked != (e.dep.state == Pending || e.dep.state == Running) {
					return fmt.Errorf("task %d: link to task %d, %v, is %v", t.id, e.dep.id, e.dep.state, e.linked)
				}
				if e.linked {
					missing++
				}
			}
			if missing != t.missing {
				return fmt.Errorf("task %d: missing is %d, want %d", t.id, t.missing, missing)
			}
		} else if t.body != nil || t.inputs != nil {
			return fmt.Errorf("task %d: %v and still holds its function or inputs", t.id, t.state)
		}
		for e := t.dependents; e != nil; e = e.next {
			if e.dep != t || e.to.state != Pending || (e.next != nil && e.next.prev != e) {
				return fmt.Errorf("task %d: broken link to task %d", t.id, e.to.id)
			}
			stack = append(stack, e.to)
		}
	}
	if len(pending) != st.pending {
		return fmt.Errorf("%d tasks reachable, %d pending", len(pending), st.pending)
	}
	return nil
}

package exec

import (
	"container/heap"
	"context"
	"fmt"
)

// State is where a task stands.
type State uint8

// A task goes from Pending to Running to Done; from Pending to Done if it inherits its
// dependency's result; and from Pending or Running to Cancelled. Done and Cancelled last.
const (
	Pending   State = iota // has not started: waits for dependencies or for a slot
	Running                // its function was started and has not returned
	Done                   // has a result: a value or an error
	Cancelled              // has no result, and never will
)

// String returns the state's name in lower case.
func (s State) String() string {
	if s > Cancelled {
		return fmt.Sprintf("State(%d)", uint8(s))
	}
	return [...]string{"pending", "running", "done", "cancelled"}[s]
}

// body is a task's function without its types. It clears in before it calls the typed
// function, so that an input can be collected as soon as that function has done with it.
type body func(ctx context.Context, in []any) (any, error)

// task is the untyped core of a Task. The identity never changes. The rest is guarded by the
// executor's lock until done is closed; from then on state, value and err are constant, and
// may be read without it.
type task struct {
	id    uint64
	name  string
	x     *Executor
	done  chan struct{} // closed once, by the effect that follows Done or Cancelled
	catch bool          // runs if its one dependency failed, rather than if it succeeded

	state State
	value any   // result, if Done
	err   error // result, if Done

	body   body   // nil once started, done or cancelled
	inputs []edge // one per dependency, in order; nil once started, done or cancelled

	// Invariant: missing is the number of inputs whose task is not Done, which are those
	// linked to its dependents unless this task is cancelled. A Pending task has missing > 0
	// or is queued for a slot.
	missing    int
	dependents *edge              // those of Pending tasks; empty once Done
	seat       *seat              // set once queued
	waiters    map[*seat]struct{} // parked until this task is finished; empty from then on
}

// edge is a dependency of a task on another. It is an element of a doubly linked list of the
// dependency's dependents, so that a cancelled task leaves it in O(1).
type edge struct {
	dep, to    *task
	prev, next *edge
	linked     bool
}

func (e *edge) link() {
	e.prev, e.next = nil, e.dep.dependents
	if e.next != nil {
		e.next.prev = e
	}
	e.dep.dependents, e.linked = e, true
}

func (e *edge) unlink() {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		e.dep.dependents = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	}
	e.prev, e.next, e.linked = nil, nil, false
}

// release drops what only a task that may still run needs.
func (t *task) release() { t.body, t.inputs = nil, nil }

// state is everything an executor knows: the unfinished tasks. Every pending task is in the
// queue or depends, transitively, on one that is queued or executing; finished tasks are
// unknown here. Methods touch neither goroutines nor channels: they append to log.
type state struct {
	lastID    uint64
	pending   int                // tasks whose state is Pending
	size      int                // of the pool
	free      int                // slots not held; 0 <= free <= size
	queue     queue              // seats that want a slot
	executing map[*seat]struct{} // seats whose function has started and not returned
	idlers    []chan struct{}    // to be closed when there is no unfinished work
	closed    bool
	log       []effect
	work      []*task // ready tasks on their way to settle, empty between changes
}

func newState(size int) state {
	return state{size: size, free: size, executing: make(map[*seat]struct{})}
}

func (st *state) emit(e effect) { st.log = append(st.log, e) }

// insert adds a task. On error nothing has changed.
func (st *state) insert(t *task, deps []*task) error {
	if st.closed {
		return fmt.Errorf("create task %q: %w", t.name, ErrClosed)
	}
	for _, d := range deps {
		switch {
		case d == nil || d.x != t.x:
			return fmt.Errorf("create task %q: dependency: %w", t.name, ErrForeign)
		case d.state == Cancelled:
			return fmt.Errorf("create task %q: dependency %d %q: %w", t.name, d.id, d.name, ErrCancelled)
		}
	}
	st.lastID++
	t.id = st.lastID
	if len(deps) > 0 {
		t.inputs = make([]edge, len(deps))
	}
	for i, d := range deps {
		t.inputs[i].dep, t.inputs[i].to = d, t
		if d.state != Done {
			t.missing++
		}
	}
	st.attach(t)
	return nil
}

// attach links a pending task to its unfinished dependencies, or settles it if it has none.
func (st *state) attach(t *task) {
	st.pending++
	if t.missing == 0 {
		st.work = append(st.work, t)
		st.settle()
		return
	}
	for i := range t.inputs {
		if e := &t.inputs[i]; e.dep.state != Done {
			e.link()
		}
	}
}

// detach is the inverse of attach for a task that was not finished by it.
func (st *state) detach(t *task) {
	st.pending--
	if t.missing == 0 {
		st.remove(t.seat)
		return
	}
	for i := range t.inputs {
		if e := &t.inputs[i]; e.linked {
			e.unlink()
		}
	}
}

// settle takes the pending tasks in work, whose dependencies are all done, to what comes
// next: the queue, or straight to a result they inherit; and likewise the dependents that
// this makes ready. Iterative, since an error may travel down a chain of millions.
func (st *state) settle() {
	for len(st.work) > 0 {
		last := len(st.work) - 1
		t := st.work[last]
		st.work[last] = nil
		st.work = st.work[:last]
		if value, err, ok := t.inherited(); ok {
			st.pending--
			st.resolve(t, value, err)
			continue
		}
		t.seat = &seat{id: t.id, name: t.name, x: t.x, task: t}
		st.push(t.seat)
	}
}

// inherited returns the result a task has without running, if it does: the error of its
// first failed dependency in the order they were given, whichever failed first in time; or,
// of a catch, the value of the dependency that did not fail.
func (t *task) inherited() (value any, err error, ok bool) {
	if t.catch {
		d := t.inputs[0].dep
		return d.value, nil, d.err == nil
	}
	for i := range t.inputs {
		if err := t.inputs[i].dep.err; err != nil {
			return nil, err, true
		}
	}
	return nil, nil, false
}

// resolve gives a task its result and passes the dependents it was the last to keep from
// being ready to work, for settle.
func (st *state) resolve(t *task, value any, err error) {
	t.state, t.value, t.err = Done, value, err
	t.release()
	st.emit(effect{kind: announce, done: t.done})
	st.wakeAll(t)
	for e := t.dependents; e != nil; e = t.dependents {
		e.unlink()
		if e.to.missing--; e.to.missing == 0 {
			st.work = append(st.work, e.to)
		}
	}
}

// dispatch hands free slots to the oldest seats that want one. It is called once at the end
// of every change, so a transaction starts nothing before it is committed.
func (st *state) dispatch() {
	st.grant()
	for st.breakDeadlock() {
		st.grant()
	}
	if st.pending == 0 && len(st.executing) == 0 {
		for _, ch := range st.idlers {
			st.emit(effect{kind: announce, done: ch})
		}
		st.idlers = nil
	}
}

func (st *state) grant() {
	for st.free > 0 && len(st.queue) > 0 {
		s := heap.Pop(&st.queue).(*seat)
		st.free--
		s.holds = true
		if s.granted != nil {
			st.emit(effect{kind: announce, done: s.granted})
			s.granted = nil
			continue
		}
		st.pending--
		st.begin(s)
	}
}

// begin moves what a function needs from its task to its seat, whose worker takes it from
// there: the executor itself keeps no reference to the inputs of a running task.
func (st *state) begin(s *seat) {
	t := s.task
	if len(t.inputs) > 0 {
		s.in = make([]any, len(t.inputs))
	}
	for i := range t.inputs {
		s.in[i] = t.inputs[i].dep.value
		if t.catch {
			s.in[i] = t.inputs[i].dep.err
		}
	}
	s.body = t.body
	s.ctx, s.endContext = newContext(s)
	t.release()
	t.state = Running
	st.executing[s] = struct{}{}
	st.emit(effect{kind: start, seat: s})
}

// end records that a seat's function returned. If its task was cancelled meanwhile the
// result is dropped.
func (st *state) end(s *seat, value any, err error) {
	t := s.task
	st.leave(s)
	if t.state == Running {
		if err != nil {
			value = nil
		}
		st.resolve(t, value, err)
		st.settle()
	}
	t.seat = nil
	st.dispatch()
}

// roots returns the tasks from which every unfinished one can be reached.
func (st *state) roots() []*task {
	var roots []*task
	for _, s := range st.queue {
		if s.granted == nil {
			roots = append(roots, s.task)
		}
	}
	for s := range st.executing {
		roots = append(roots, s.task)
	}
	return roots
}

func (st *state) push(s *seat)   { heap.Push(&st.queue, s) }
func (st *state) remove(s *seat) { heap.Remove(&st.queue, s.pos) }

// queue is a heap of the seats that want a slot, the oldest task first.
type queue []*seat

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].id < q[j].id }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].pos, q[j].pos = i, j
}

func (q *queue) Push(s any) {
	seat := s.(*seat)
	seat.pos = len(*q)
	*q = append(*q, seat)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	s.pos = -1
	return s
}

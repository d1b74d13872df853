package exec

// Tx is a transaction in progress; see [Executor.Txn]. Tasks are created in it by passing
// it to [Go], [Then] and their kin. It sees its own changes. It is for the goroutine that
// runs the transaction's function, and useless once that has returned.
type Tx struct {
	x    *Executor // nil once the transaction is over
	undo journal
}

// State returns the state of a task as of this transaction, its own changes included. It
// panics if the transaction is over or the task is of another executor. O(1).
func (tx *Tx) State(h Handle) State { return tx.own(h).state }

// Cancel cancels tasks and everything that depends on them, and returns how many tasks went
// from pending or running to cancelled. A task that is done or cancelled is left alone, and
// so are its dependents. On commit, a pending task is certain never to run; the context of
// a running one ends, and whatever its function returns is dropped. It panics if the
// transaction is over or a task is of another executor. O(log n) for each task cancelled.
func (tx *Tx) Cancel(tasks ...Handle) int {
	before := len(tx.undo)
	for _, h := range tasks {
		t := tx.own(h)
		tx.x.st.cancel(t, &tx.undo)
	}
	return len(tx.undo) - before
}

func (tx *Tx) own(h Handle) *task {
	if tx.x == nil {
		panic("exec: " + ErrTxDone.Error())
	}
	t := h.core()
	if t == nil || t.x != tx.x {
		panic("exec: " + ErrForeign.Error())
	}
	return t
}

func (tx *Tx) submit(t *task, deps []*task) error {
	if tx.x == nil {
		return ErrTxDone
	}
	t.x = tx.x
	if err := tx.x.st.insert(t, deps); err != nil {
		return err
	}
	tx.undo = append(tx.undo, change{t, created})
	return nil
}

// submit is a transaction of one task. It needs no journal: insert changes nothing if it
// fails.
func (x *Executor) submit(t *task, deps []*task) error {
	x.mu.Lock()
	defer x.unlockAndApply()
	t.x = x
	if err := x.st.insert(t, deps); err != nil {
		return err
	}
	x.st.dispatch()
	return nil
}

// finish ends the transaction one way or the other. Called with the lock held.
func (tx *Tx) finish(commit bool) {
	if commit {
		tx.x.st.commit(tx.undo)
	} else {
		tx.x.st.rollback(tx.undo)
	}
	tx.x, tx.undo = nil, nil
}

// A journal lists the changes of a transaction, oldest first, so that they can be undone.
//
// The two changes are nearly each other's inverse: creation links a task to its
// dependencies or queues it, cancellation unlinks it or takes it out of the queue. Nothing
// else changes while a transaction holds the lock: no task starts, none finishes. Undoing
// the journal from its end therefore restores the state exactly, but for the ids given out,
// which are not used again.
type journal []change

type change struct {
	t    *task
	kind changeKind
}

type changeKind uint8

const (
	created          changeKind = iota
	cancelledPending            // was Pending
	cancelledRunning            // was Running
)

// cancel cancels a task and its transitive dependents, noting each in the journal. It walks
// with a list of its own rather than by recursion, for a chain may be millions long.
func (st *state) cancel(t *task, undo *journal) {
	if t.state != Pending && t.state != Running {
		return
	}
	mark := func(t *task) {
		kind := cancelledPending
		if t.state == Running {
			kind = cancelledRunning
		}
		t.state = Cancelled
		*undo = append(*undo, change{t, kind})
	}
	next := len(*undo)
	mark(t)
	// The journal doubles as the list of tasks to visit.
	for ; next < len(*undo); next++ {
		c := (*undo)[next]
		for e := c.t.dependents; e != nil; e = e.next {
			if e.to.state == Pending {
				mark(e.to)
			}
		}
		if c.kind == cancelledPending {
			st.detach(c.t)
		}
	}
}

// commit makes a transaction's changes final: from here cancelled tasks hold on to nothing,
// and what they were is told to the world by effects.
func (st *state) commit(undo journal) {
	for _, c := range undo {
		switch c.kind {
		case cancelledPending:
			c.t.release()
			fallthrough
		case cancelledRunning:
			st.emit(effect{kind: announce, done: c.t.done})
			st.wakeAll(c.t)
		}
	}
	// Contexts end last: a function that waits for a task, and is cancelled together with
	// it, finds that the task was cancelled, whatever the order in the transaction.
	for _, c := range undo {
		if c.kind == cancelledRunning {
			st.wake(c.t.seat, cancelled)
			st.emit(effect{kind: endContext, seat: c.t.seat})
		}
	}
	st.dispatch()
}

// rollback undoes a transaction's changes. A task it created may be known to someone by its
// handle, who must not wait for ever: it is left cancelled.
func (st *state) rollback(undo journal) {
	st.log = st.log[:0]
	for i := len(undo) - 1; i >= 0; i-- {
		t := undo[i].t
		switch undo[i].kind {
		case cancelledRunning:
			t.state = Running
		case cancelledPending:
			t.state = Pending
			st.attach(t)
		case created:
			if t.state == Pending {
				st.detach(t)
			}
			t.state, t.value, t.err = Cancelled, nil, nil
			t.release()
			st.emit(effect{kind: announce, done: t.done})
		}
	}
}

package exec_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/jepsentest/go/exec"
)

// The model is the executor as one would write it without regard for speed: every task ever
// created in a slice, every question answered by going through all of them. The machine
// applies the same random actions to both, lets every goroutine come to rest, and compares
// all there is to see. It runs in a synctest bubble, so "at rest" is exact, no time passes,
// and an executor that lost its liveness fails at once instead of hanging.

// modelTask is one task, real and modelled.
type modelTask struct {
	deps  []int
	catch bool

	state     exec.State
	executing bool   // started and not returned
	holds     bool   // executing and not in Wait
	awaits    int    // index of the task waited for, -1 if none
	woken     *error // what the wait will return, once that is decided
	value     int
	err       error
	starts    int
	waits     []error // what its waits returned

	handle *exec.Task[int]
	orders chan order
	seen   observed
}

// observed is what a task's function notes while it runs.
type observed struct {
	starts    int
	executing bool
	in        []int
	caught    error
	waits     []error
}

// order tells a task's function what to do next.
type order struct {
	kind  orderKind
	value int
	await *exec.Task[int]
}

type orderKind int

const (
	orderReturn orderKind = iota
	orderFail
	orderPanic
	orderGoexit
	orderWait
)

type taskError int

func (e taskError) Error() string { return fmt.Sprintf("error %d", int(e)) }

type machine struct {
	x     *exec.Executor
	size  int
	tasks []*modelTask
	next  int // for distinct values and errors
	quit  chan struct{}
	out   []*outsider

	mu sync.Mutex // guards the seen of all tasks
}

// outsider is a goroutine that is no task's and waits for a task.
type outsider struct {
	task   int
	cancel context.CancelFunc
	gaveUp bool
	result chan error
}

func newMachine(size int) *machine {
	return &machine{x: exec.New(size), size: size, quit: make(chan struct{})}
}

// function is the body of every task: it notes what it got and then follows orders.
func (m *machine) function(t *modelTask, ctx context.Context, in []int, caught error) (int, error) {
	m.mu.Lock()
	t.seen.starts++
	t.seen.executing = true
	t.seen.in, t.seen.caught = in, caught
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		t.seen.executing = false
		m.mu.Unlock()
	}()
	for {
		var o order
		select {
		case o = <-t.orders:
		case <-m.quit:
			return 0, nil
		}
		switch o.kind {
		case orderReturn:
			return o.value, nil
		case orderFail:
			return o.value, taskError(o.value) // the value is to be dropped
		case orderPanic:
			panic(taskError(o.value))
		case orderGoexit:
			runtime.Goexit()
		case orderWait:
			_, err := o.await.Wait(ctx)
			m.mu.Lock()
			t.seen.waits = append(t.seen.waits, err)
			m.mu.Unlock()
		}
	}
}

// create makes the real task; s is the executor or a transaction.
func (m *machine) create(s exec.Submitter, t *modelTask) (err error) {
	f := func(ctx context.Context, in ...int) (int, error) { return m.function(t, ctx, in, nil) }
	var deps []*exec.Task[int]
	for _, d := range t.deps {
		deps = append(deps, m.tasks[d].handle)
	}
	switch {
	case t.catch:
		t.handle, err = exec.Catch(s, "catch", deps[0], func(ctx context.Context, err error) (int, error) {
			return m.function(t, ctx, nil, err)
		})
	case len(deps) == 0:
		t.handle, err = exec.Go(s, "go", func(ctx context.Context) (int, error) { return f(ctx) })
	case len(deps) == 1:
		t.handle, err = exec.Then(s, "then", deps[0], func(ctx context.Context, a int) (int, error) { return f(ctx, a) })
	case len(deps) == 2:
		t.handle, err = exec.Join2(s, "join", deps[0], deps[1], func(ctx context.Context, a, b int) (int, error) { return f(ctx, a, b) })
	case len(deps) == 3:
		t.handle, err = exec.Join3(s, "join", deps[0], deps[1], deps[2], func(ctx context.Context, a, b, c int) (int, error) { return f(ctx, a, b, c) })
	default:
		t.handle, err = exec.All(s, "all", deps, func(ctx context.Context, in []int) (int, error) { return f(ctx, in...) })
	}
	return err
}

// submit draws a task and creates it in both. It is an error exactly if a dependency is
// cancelled.
func (m *machine) submit(rt *rapid.T, s exec.Submitter) {
	t := &modelTask{awaits: -1, orders: make(chan order)}
	if len(m.tasks) > 0 {
		// Mostly recent ones, so that long chains arise.
		recent := rapid.Custom(func(rt *rapid.T) int {
			return max(0, len(m.tasks)-1-rapid.IntRange(0, 7).Draw(rt, "back"))
		})
		t.deps = rapid.SliceOfN(recent, 0, 5).Draw(rt, "deps")
		t.catch = len(t.deps) == 1 && rapid.Bool().Draw(rt, "catch")
	}
	refused := slices.ContainsFunc(t.deps, func(d int) bool { return m.tasks[d].state == exec.Cancelled })
	err := m.create(s, t)
	if refused != errors.Is(err, exec.ErrCancelled) || !refused && err != nil {
		rt.Fatalf("create with dependencies %v: %v, refused should be %v", t.deps, err, refused)
	}
	if refused {
		return
	}
	if n := len(m.tasks); n > 0 && t.handle.ID() <= m.tasks[n-1].handle.ID() {
		rt.Fatalf("id %d after id %d", t.handle.ID(), m.tasks[n-1].handle.ID())
	}
	m.tasks = append(m.tasks, t)
	m.inherit()
}

// modelCancel is cancel, by going through all tasks until nothing changes. It returns the
// number of tasks cancelled.
func (m *machine) modelCancel(i int) (n int) {
	if s := m.tasks[i].state; s != exec.Pending && s != exec.Running {
		return 0
	}
	m.tasks[i].state = exec.Cancelled
	n++
	for _, t := range m.tasks {
		for _, d := range t.deps {
			if m.tasks[d].state == exec.Cancelled && t.state == exec.Pending {
				t.state = exec.Cancelled
				n++
			}
		}
	}
	return n
}

// inherit lets finished tasks' results reach pending tasks that do not run for them. Tasks
// only depend on older ones, so one pass is enough.
func (m *machine) inherit() {
	for _, t := range m.tasks {
		if t.state != exec.Pending || !m.depsDone(t) {
			continue
		}
		if t.catch {
			if d := m.tasks[t.deps[0]]; d.err == nil {
				t.state, t.value = exec.Done, d.value
			}
			continue
		}
		for _, d := range t.deps {
			if err := m.tasks[d].err; err != nil {
				t.state, t.err = exec.Done, err
				break
			}
		}
	}
}

func (m *machine) depsDone(t *modelTask) bool {
	for _, d := range t.deps {
		if m.tasks[d].state != exec.Done {
			return false
		}
	}
	return true
}

// settle brings the model to rest: the oldest that want a slot get one.
func (m *machine) settle() {
	m.inherit()
	holders := 0
	for _, t := range m.tasks {
		if t.executing && !t.holds && t.woken == nil {
			t.woken = m.wakes(t)
		}
		if t.holds {
			holders++
		}
	}
	for _, t := range m.tasks {
		if holders == m.size {
			return
		}
		switch {
		case t.state == exec.Pending && m.depsDone(t):
			t.state, t.executing, t.holds = exec.Running, true, true
			t.starts++
			holders++
		case t.executing && !t.holds && t.woken != nil:
			t.waits = append(t.waits, *t.woken)
			t.awaits, t.woken, t.holds = -1, nil, true
			holders++
		}
	}
}

// wakes returns what ends a parked task's wait, or nil.
func (m *machine) wakes(t *modelTask) *error {
	err := context.Canceled
	switch a := m.tasks[t.awaits]; {
	case a.state == exec.Done:
		err = a.err
	case a.state == exec.Cancelled:
		err = exec.ErrCancelled
	case t.state == exec.Cancelled:
	default:
		return nil
	}
	return &err
}

// inCircle tells whether a parked task waits, in the end, for itself.
func (m *machine) inCircle(i int) bool {
	reached := map[int]bool{}
	var visit func(j int)
	visit = func(j int) {
		t := m.tasks[j]
		if reached[j] || t.state == exec.Done || t.state == exec.Cancelled {
			return
		}
		reached[j] = true
		if t.state == exec.Pending {
			for _, d := range t.deps {
				visit(d)
			}
		} else if t.awaits >= 0 {
			visit(t.awaits)
		}
	}
	visit(m.tasks[i].awaits)
	return reached[i]
}

// breakDeadlocks adopts the executor's choice of whose wait fails when the model is stuck in
// a circle, after checking that the choice is one it may make.
func (m *machine) breakDeadlocks(rt *rapid.T) {
	var circular []int
	for i, t := range m.tasks {
		if t.holds {
			return
		}
		if t.executing && t.awaits >= 0 && m.inCircle(i) {
			circular = append(circular, i)
		}
	}
	if len(circular) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range circular {
		t := m.tasks[i]
		if n := len(t.seen.waits); n == len(t.waits)+1 && errors.Is(t.seen.waits[n-1], exec.ErrDeadlock) {
			t.waits = append(t.waits, exec.ErrDeadlock)
			t.awaits, t.holds = -1, true
			return
		}
	}
	rt.Fatalf("tasks %v wait in a circle, and none was told", circular)
}

// check compares the executor at rest with the model.
func (m *machine) check(rt *rapid.T) {
	synctest.Wait()
	m.settle()
	m.breakDeadlocks(rt)
	m.settle()
	if err := exec.CheckInvariants(m.x); err != nil {
		rt.Fatal(err)
	}
	var want exec.Stats
	for i, t := range m.tasks {
		if t.state == exec.Pending {
			want.Pending++
		}
		if t.holds {
			want.Running++
		} else if t.executing {
			want.Waiting++
		}
		m.checkTask(rt, i, t)
	}
	if got := m.x.Stats(); got != want || got.Running > m.size {
		rt.Fatalf("stats %+v, want %+v, size %d", got, want, m.size)
	}
	for _, o := range m.out {
		m.checkOutsider(rt, o)
	}
	m.out = slices.DeleteFunc(m.out, func(o *outsider) bool { return o.result == nil })
}

func (m *machine) checkTask(rt *rapid.T, i int, t *modelTask) {
	m.mu.Lock()
	seen := t.seen
	m.mu.Unlock()
	if got := t.handle.State(); got != t.state {
		rt.Fatalf("task %d is %v, want %v", i, got, t.state)
	}
	if seen.starts != t.starts || seen.executing != t.executing {
		rt.Fatalf("task %d started %d times and executes: %v; want %d, %v", i, seen.starts, seen.executing, t.starts, t.executing)
	}
	if t.starts > 0 && t.catch {
		if want := m.tasks[t.deps[0]].err; !same(seen.caught, want) {
			rt.Fatalf("task %d caught %v, want %v", i, seen.caught, want)
		}
	} else if t.starts > 0 {
		want := make([]int, 0, len(t.deps))
		for _, d := range t.deps {
			want = append(want, m.tasks[d].value)
		}
		if !slices.Equal(seen.in, want) {
			rt.Fatalf("task %d received %v, want %v", i, seen.in, want)
		}
	}
	if !slices.EqualFunc(seen.waits, t.waits, same) {
		rt.Fatalf("task %d: waits returned %v, want %v", i, seen.waits, t.waits)
	}
	finished := t.state == exec.Done || t.state == exec.Cancelled
	select {
	case <-t.handle.Done():
		if !finished {
			rt.Fatalf("task %d is %v and announced as done", i, t.state)
		}
		value, err := t.handle.Wait(context.Background())
		want := t.err
		if t.state == exec.Cancelled {
			want = exec.ErrCancelled
		}
		if !same(err, want) || value != t.value {
			rt.Fatalf("task %d: result %d, %v; want %d, %v", i, value, err, t.value, want)
		}
	default:
		if finished {
			rt.Fatalf("task %d is %v and not announced", i, t.state)
		}
	}
}

func (m *machine) checkOutsider(rt *rapid.T, o *outsider) {
	t := m.tasks[o.task]
	select {
	case err := <-o.result:
		o.result = nil
		o.cancel()
		want := t.err
		switch {
		case t.state == exec.Cancelled:
			want = exec.ErrCancelled
		case t.state != exec.Done && o.gaveUp:
			want = context.Canceled
		case t.state != exec.Done:
			rt.Fatalf("wait for task %d, %v, returned %v", o.task, t.state, err)
		}
		// A wait given up when the task was done may have noticed either.
		if !same(err, want) && !(o.gaveUp && errors.Is(err, context.Canceled)) {
			rt.Fatalf("wait for task %d returned %v, want %v", o.task, err, want)
		}
	default:
		if t.state == exec.Done || t.state == exec.Cancelled || o.gaveUp {
			rt.Fatalf("wait for task %d, %v, did not return", o.task, t.state)
		}
	}
}

func same(got, want error) bool {
	return got == nil && want == nil || want != nil && errors.Is(got, want)
}

// order draws a task that holds a slot and an order for it, and applies the order to both.
func (m *machine) order(rt *rapid.T) {
	var holders []int
	for i, t := range m.tasks {
		if t.holds {
			holders = append(holders, i)
		}
	}
	if len(holders) == 0 {
		rt.Skip("nothing runs")
	}
	i := rapid.SampledFrom(holders).Draw(rt, "task")
	t := m.tasks[i]
	m.next++
	o := order{value: m.next}
	o.kind = rapid.SampledFrom([]orderKind{
		orderReturn, orderReturn, orderReturn, orderFail, orderPanic, orderGoexit, orderWait, orderWait, orderWait,
	}).Draw(rt, "order")

	if o.kind == orderWait {
		awaits := rapid.IntRange(0, len(m.tasks)-1).Draw(rt, "awaits")
		o.await = m.tasks[awaits].handle
		t.orders <- o
		t.awaits = awaits
		if err := m.wakes(t); err != nil {
			t.waits = append(t.waits, *err)
			t.awaits = -1
		} else if awaits == i {
			// It fails at once.
			t.waits = append(t.waits, exec.ErrDeadlock)
			t.awaits = -1
		} else {
			t.holds = false
		}
		return
	}
	t.orders <- o
	t.executing, t.holds = false, false
	if t.state == exec.Cancelled {
		return
	}
	t.state = exec.Done
	switch o.kind {
	case orderReturn:
		t.value = o.value
	case orderFail, orderPanic:
		t.err = taskError(o.value)
	case orderGoexit:
		t.err = exec.ErrGoexit
	}
}

func (m *machine) cancel(rt *rapid.T) {
	if len(m.tasks) == 0 {
		rt.Skip("no tasks")
	}
	i := rapid.IntRange(0, len(m.tasks)-1).Draw(rt, "task")
	if got, want := m.tasks[i].handle.Cancel(), m.modelCancel(i); got != want {
		rt.Fatalf("cancel of task %d: %d tasks, want %d", i, got, want)
	}
}

var errRollback = errors.New("roll back")

// txn runs a random transaction that may end any way a function can.
func (m *machine) txn(rt *rapid.T) {
	existed := len(m.tasks)
	before := make([]modelTask, existed)
	for i, t := range m.tasks {
		before[i] = *t
	}
	end := rapid.SampledFrom([]string{"commit", "commit", "error", "panic", "goexit"}).Draw(rt, "end")
	steps := rapid.IntRange(0, 6).Draw(rt, "steps")
	var leaked *exec.Tx
	var err error
	finished := make(chan any)
	var failed func() // a failure is reported outside, for rapid uses panics of its own
	var plan []func(tx *exec.Tx)
	for range steps {
		switch {
		case len(m.tasks) > 0 && rapid.Bool().Draw(rt, "cancel or query"):
			i := rapid.IntRange(0, existed+len(plan)).Draw(rt, "task")
			plan = append(plan, func(tx *exec.Tx) {
				i := i % len(m.tasks)
				h := m.tasks[i].handle
				if got, want := tx.State(h), m.tasks[i].state; got != want {
					failed = func() { rt.Fatalf("in transaction: task %d is %v, want %v", i, got, want) }
				}
				if got, want := tx.Cancel(h), m.modelCancel(i); got != want {
					failed = func() { rt.Fatalf("in transaction: %d tasks cancelled, want %d", got, want) }
				}
			})
		default:
			plan = append(plan, func(tx *exec.Tx) { m.submit(rt, tx) })
		}
	}
	go func() {
		defer func() { finished <- recover() }()
		err = m.x.Txn(func(tx *exec.Tx) error {
			leaked = tx
			for _, step := range plan {
				step(tx)
			}
			switch end {
			case "error":
				return errRollback
			case "panic":
				panic(errRollback)
			case "goexit":
				runtime.Goexit()
			}
			return nil
		})
	}()
	panicked := <-finished
	if failed != nil {
		failed()
	}
	if end == "panic" && panicked != errRollback || end != "panic" && panicked != nil {
		panic(panicked)
	}
	if end == "error" && err != errRollback || end == "commit" && err != nil {
		rt.Fatalf("transaction ended by %s returned %v", end, err)
	}
	if _, err := exec.Go(leaked, "late", func(context.Context) (int, error) { return 0, nil }); !errors.Is(err, exec.ErrTxDone) {
		rt.Fatalf("use of a transaction that is over: %v", err)
	}
	if end == "commit" {
		return
	}
	for i, t := range m.tasks {
		if i < existed {
			*t = before[i]
		} else {
			t.state, t.value, t.err = exec.Cancelled, 0, nil
		}
	}
}

// outside starts a goroutine that waits for a task, or makes one give up.
func (m *machine) outside(rt *rapid.T) {
	if len(m.tasks) == 0 {
		rt.Skip("no tasks")
	}
	if len(m.out) > 0 && rapid.Bool().Draw(rt, "give up") {
		o := rapid.SampledFrom(m.out).Draw(rt, "waiter")
		o.gaveUp = true
		o.cancel()
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	o := &outsider{task: rapid.IntRange(0, len(m.tasks)-1).Draw(rt, "task"), cancel: cancel, result: make(chan error, 1)}
	m.out = append(m.out, o)
	h, result := m.tasks[o.task].handle, o.result
	go func() {
		_, err := h.Wait(ctx)
		result <- err
	}()
}

// stop ends everything, and with it every goroutine.
func (m *machine) stop(rt *rapid.T) {
	close(m.quit)
	for _, o := range m.out {
		o.cancel()
	}
	m.x.Close()
	if got := m.x.Stats(); got != (exec.Stats{}) {
		rt.Fatalf("closed, and %+v", got)
	}
	for i, t := range m.tasks {
		if s := t.handle.State(); s != exec.Done && s != exec.Cancelled {
			rt.Fatalf("closed, and task %d is %v", i, s)
		}
	}
}

func TestExecutorIsTheModel(t *testing.T) {
	for size := 1; size <= 4; size++ {
		t.Run(fmt.Sprint("size ", size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// A bubble does not tell rapid the test's deadline; struct{TB} does not offer it.
				rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) {
					m := newMachine(size)
					defer m.stop(rt)
					submit := func(rt *rapid.T) { m.submit(rt, m.x) }
					rt.Repeat(map[string]func(*rapid.T){
						"submit":      submit,
						"submit more": submit,
						"order":       m.order,
						"order more":  m.order,
						"cancel":      m.cancel,
						"transaction": m.txn,
						"outside":     m.outside,
						"":            m.check,
					})
				})
			})
		})
	}
}

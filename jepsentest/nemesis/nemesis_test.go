package nemesis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/dsl/simulate"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/jepsentest/cluster"
	"github.com/jepsentest/go/jepsentest/nemesis"
	"pgregory.net/rapid"
)

// fake is a cluster that only remembers what was done to it.
type fake struct {
	mu      sync.Mutex
	states  map[string]cluster.State
	grudge  cluster.Grudge
	dropped uint64
	perCut  uint64 // packets that each look at a partition finds dropped
	broken  error  // what every operation returns

	cannotCut error
}

func newFake(nodes []string) *fake {
	f := &fake{states: map[string]cluster.State{}, perCut: 7}
	for _, n := range nodes {
		f.states[n] = cluster.Running
	}
	return f
}

func (f *fake) set(n string, from []cluster.State, to cluster.State) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Contains(from, f.states[n]) {
		f.states[n] = to
	}
	return f.broken
}

func (f *fake) Kill(_ context.Context, n string) error {
	return f.set(n, []cluster.State{cluster.Running, cluster.Paused}, cluster.Exited)
}
func (f *fake) Start(_ context.Context, n string) error {
	return f.set(n, []cluster.State{cluster.Exited, cluster.Paused}, cluster.Running)
}
func (f *fake) Pause(_ context.Context, n string) error {
	return f.set(n, []cluster.State{cluster.Running}, cluster.Paused)
}
func (f *fake) Resume(_ context.Context, n string) error {
	return f.set(n, []cluster.State{cluster.Paused}, cluster.Running)
}
func (f *fake) State(_ context.Context, n string) (cluster.State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.states[n], f.broken
}
func (f *fake) Partition(_ context.Context, g cluster.Grudge) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.grudge = g
	return f.broken
}
func (f *fake) Heal(context.Context) error { return f.Partition(context.Background(), nil) }
func (f *fake) CanPartition() error        { return f.cannotCut }
func (f *fake) PartitionCounters(context.Context) (map[string]uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.grudge) > 0 {
		f.dropped += f.perCut
	}
	return map[string]uint64{"n1": f.dropped}, f.broken
}

func names(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("n%d", i+1))
	}
	return out
}

// hears returns whom each node hears, itself included.
func hears(nodes []string, g cluster.Grudge) map[string][]string {
	out := map[string][]string{}
	for _, n := range nodes {
		for _, m := range nodes {
			if !slices.Contains(g[n], m) {
				out[n] = append(out[n], m)
			}
		}
	}
	return out
}

func TestGrudges(t *testing.T) {
	five := names(5)
	for _, c := range []struct {
		name string
		g    cluster.Grudge
		want string
	}{
		{"halves", nemesis.CompleteGrudge(nemesis.Bisect(five)), "map[n1:[n3 n4 n5] n2:[n3 n4 n5] n3:[n1 n2] n4:[n1 n2] n5:[n1 n2]]"},
		{"one", nemesis.CompleteGrudge(nemesis.SplitOne(names(3))), "map[n1:[n2 n3] n2:[n1] n3:[n1]]"},
		{"three components", nemesis.CompleteGrudge([]string{"a"}, []string{"b"}, []string{"c"}), "map[a:[b c] b:[a c] c:[a b]]"},
		{"one component", nemesis.CompleteGrudge(five), "map[]"},
		{"bridge", nemesis.Bridge(five), "map[n1:[n4 n5] n2:[n4 n5] n4:[n1 n2] n5:[n1 n2]]"},
		{"bridge of one", nemesis.Bridge(names(1)), "map[]"},
		{"one way", nemesis.OneWayGrudge(names(3)), "map[n1:[n2 n3]]"},
		{"ring of three", nemesis.RingGrudge(nil, names(3)), "map[n1:[n2] n2:[n3] n3:[n1]]"},
		{"ring of five", nemesis.RingGrudge(nil, five), "map[n1:[n3 n4] n2:[n4 n5] n3:[n1 n5] n4:[n1 n2] n5:[n2 n3]]"},
		{"ring of two", nemesis.RingGrudge(nil, names(2)), "map[]"},
	} {
		if got := fmt.Sprint(c.g); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// In a majorities ring every node hears a majority; in a perfect one no two
// hear the same nodes.
func TestRingGrudgeLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := names(rapid.IntRange(1, 12).Draw(t, "nodes"))
		seed := rapid.Uint64().Draw(t, "seed")
		g := nemesis.RingGrudge(rand.New(rand.NewPCG(seed, 0)), nodes)
		views := map[string]bool{}
		for n, view := range hears(nodes, g) {
			if len(view) <= len(nodes)/2 || !slices.Contains(view, n) {
				t.Fatalf("%s hears only %v", n, view)
			}
			views[strings.Join(view, " ")] = true
		}
		if len(nodes) >= 3 && len(nodes) <= 5 && len(views) != len(nodes) {
			t.Fatalf("two nodes hear the same: %v", hears(nodes, g))
		}
	})
}

// Whatever is done, and however it is cut short, healing makes everything whole.
func TestHealAfterAnySchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := names(rapid.IntRange(2, 7).Draw(t, "nodes"))
		sys := newFake(nodes)
		o := nemesis.Options{Nodes: nodes, System: func() nemesis.System { return sys }, Interval: time.Second,
			Primaries: func(context.Context) ([]string, error) { return nodes[:1], nil }}
		p := nemesis.Compose(nemesis.Partition(o), nemesis.Kill(o), nemesis.Pause(o))
		n := rapid.IntRange(1, 30).Draw(t, "operations")
		_, err := simulate.Run(dsl.Nemesis(dsl.Limit(n, p.Generator)), simulate.Options{
			Seed: rapid.Uint64().Draw(t, "seed"),
			Complete: func(inv histories.Op) histories.Op {
				if _, err := p.Nemesis.Invoke(context.Background(), &inv); err != nil {
					t.Fatalf("%v: %v", inv, err)
				}
				return simulate.Perfect(inv)
			}})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Nemesis.Heal(context.Background()); err != nil {
			t.Fatal(err)
		}
		for _, node := range nodes {
			if sys.states[node] != cluster.Running {
				t.Fatalf("node %s is %v", node, sys.states[node])
			}
		}
		if len(sys.grudge) > 0 {
			t.Fatalf("still cut: %v", sys.grudge)
		}
	})
}

func invoke(t *testing.T, n nemesis.Nemesis, f string, v histories.Value) (histories.Value, error) {
	t.Helper()
	return n.Invoke(context.Background(), &histories.Op{Process: histories.Nemesis, F: f, Value: v})
}

func nodeList(nodes ...string) histories.Value {
	var vs []histories.Value
	for _, n := range nodes {
		vs = append(vs, histories.String(n))
	}
	return histories.List(vs...)
}

func TestFaultsWithoutEffectAreReported(t *testing.T) {
	nodes := names(3)
	sys := newFake(nodes)
	sys.perCut = 0
	o := nemesis.Options{Nodes: nodes, System: func() nemesis.System { return sys }}
	p := nemesis.Partition(o).Nemesis
	for _, pkg := range []nemesis.Package{nemesis.Partition(o), nemesis.Kill(o), nemesis.Pause(o)} {
		if err := pkg.Nemesis.CheckEffects(context.Background()); err == nil || !strings.Contains(err.Error(), "ever brought about") {
			t.Errorf("a fault that was never brought about: got %v", err)
		}
	}
	cut := histories.MapOf(histories.Entry{Key: histories.String("n1"), Value: nodeList("n2")})
	if _, err := invoke(t, p, "start-partition", cut); err != nil {
		t.Fatal(err)
	}
	if v, err := invoke(t, p, "stop-partition", histories.Nil()); err != nil || v.String() != "{:packets-dropped 0}" {
		t.Fatal(v, err)
	}
	if err := p.CheckEffects(context.Background()); err == nil {
		t.Error("a partition that dropped nothing is not reported")
	}
}

func TestPartitionCountsWhatItDropped(t *testing.T) {
	nodes := names(3)
	sys := newFake(nodes)
	p := nemesis.Partition(nemesis.Options{Nodes: nodes, System: func() nemesis.System { return sys }}).Nemesis
	cut := histories.MapOf(histories.Entry{Key: histories.String("n1"), Value: nodeList("n2", "n3")})
	for range 2 {
		if _, err := invoke(t, p, "start-partition", cut); err != nil {
			t.Fatal(err)
		}
		if v, err := invoke(t, p, "stop-partition", histories.Nil()); err != nil || v.String() != "{:packets-dropped 7}" {
			t.Fatal(v, err)
		}
	}
	if err := p.CheckEffects(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestBadOperations(t *testing.T) {
	nodes := names(3)
	sys := newFake(nodes)
	o := nemesis.Options{Nodes: nodes, System: func() nemesis.System { return sys }}
	n := nemesis.Compose(nemesis.Partition(o), nemesis.Kill(o), nemesis.Pause(o)).Nemesis
	for _, c := range []struct {
		f    string
		v    histories.Value
		want string
	}{
		{"explode", histories.Nil(), `does not know the operation "explode"`},
		{"kill", nodeList("n9"), `no node is called "n9"`},
		{"kill", nodeList(), "a list of nodes is needed"},
		{"pause", histories.Int(3), "a list of nodes is needed"},
		{"kill", histories.Keyword("primaries"), "nobody can tell"},
		{"start-partition", histories.Int(3), "needs a map"},
	} {
		if _, err := invoke(t, n, c.f, c.v); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: got %v, want %q", c.f, c.v, err, c.want)
		}
	}
	sys.broken = errors.New("engine is gone")
	if _, err := invoke(t, n, "kill", nodeList("n1")); !errors.Is(err, sys.broken) {
		t.Errorf("got %v", err)
	}
	if err := n.Heal(context.Background()); !errors.Is(err, sys.broken) {
		t.Errorf("heal: got %v", err)
	}
}

func TestComposeRefusesTwoOfAKind(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	o := nemesis.Options{Nodes: names(3), System: func() nemesis.System { return nil }}
	nemesis.Compose(nemesis.Kill(o), nemesis.Kill(o))
}

func TestPrimariesAreIsolated(t *testing.T) {
	nodes := names(3)
	sys := newFake(nodes)
	p := nemesis.Partition(nemesis.Options{Nodes: nodes, System: func() nemesis.System { return sys },
		Primaries: func(context.Context) ([]string, error) { return []string{"n2"}, nil }}).Nemesis
	v, err := invoke(t, p, "start-partition", histories.Keyword("primaries"))
	if want := `{"n1" ["n2"], "n2" ["n1" "n3"], "n3" ["n2"]}`; err != nil || v.String() != want {
		t.Errorf("got %v, %v, want %s", v, err, want)
	}
}

func TestInTurnBringsAboutOneFaultAfterTheOther(t *testing.T) {
	nodes := names(3)
	sys := newFake(nodes)
	o := nemesis.Options{Nodes: nodes, System: func() nemesis.System { return sys }}
	p := nemesis.InTurn(time.Second, nemesis.Kill(o), nemesis.Pause(o), nemesis.Partition(o))
	h, err := simulate.Run(dsl.Nemesis(dsl.Limit(16, p.Generator)), simulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, op := range h {
		if op.Phase == histories.Begin {
			got = append(got, fmt.Sprintf("%v %s", op.Time, op.F))
		}
	}
	want := "1s kill, 2.00000001s start, 3.00000002s pause, 4.00000003s resume, 5.00000004s start-partition, 6.00000005s stop-partition, 7.00000006s kill, 8.00000007s start"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("got %s", s)
	}
}

func TestFaultsThatAlwaysFailAreReported(t *testing.T) {
	nodes := names(3)
	sys := newFake(nodes)
	sys.broken = errors.New("no")
	p := nemesis.Partition(nemesis.Options{Nodes: nodes, System: func() nemesis.System { return sys }}).Nemesis
	if _, err := invoke(t, p, "start-partition", histories.Keyword("primaries")); err == nil {
		t.Error("no error")
	}
	sys.broken = nil
	if err := p.CheckEffects(context.Background()); err == nil {
		t.Error("a partition that never came about is not reported")
	}
}

func TestWhatTheSystemLacksIsFoundBeforehand(t *testing.T) {
	nodes := names(3)
	sys := newFake(nodes)
	sys.cannotCut = errors.New("no NET_ADMIN")
	o := nemesis.Options{Nodes: nodes, System: func() nemesis.System { return sys }}
	if err := nemesis.Compose(nemesis.Kill(o), nemesis.Partition(o)).Nemesis.Setup(context.Background()); !errors.Is(err, sys.cannotCut) {
		t.Errorf("got %v", err)
	}
}

// A pause that only meets nodes which another fault has killed is no pause
// without effect.
func TestPauseOfKilledNodes(t *testing.T) {
	nodes := names(3)
	sys := newFake(nodes)
	o := nemesis.Options{Nodes: nodes, System: func() nemesis.System { return sys }}
	n := nemesis.Compose(nemesis.Kill(o), nemesis.Pause(o)).Nemesis
	for _, f := range []string{"kill", "pause", "resume", "start"} {
		if _, err := invoke(t, n, f, nodeList("n1")); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.CheckEffects(context.Background()); err != nil {
		t.Error(err)
	}
}

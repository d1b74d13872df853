package nemesis

import (
	"math/rand/v2"
	"slices"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/jepsentest/cluster"
)

// A grudge maps each node to those whose packets it drops. The functions below
// make the shapes that databases are known to stumble over.

// CompleteGrudge cuts the network into components: no node hears one of another
// component.
func CompleteGrudge(components ...[]string) cluster.Grudge {
	g := cluster.Grudge{}
	for i, c := range components {
		for _, node := range c {
			for j, other := range components {
				if i != j {
					g[node] = append(g[node], other...)
				}
			}
		}
	}
	return tidy(g)
}

// InvertGrudge makes the grudge in which each node hears only those that
// connections names, and itself.
func InvertGrudge(nodes []string, connections map[string][]string) cluster.Grudge {
	g := cluster.Grudge{}
	for _, n := range nodes {
		for _, other := range nodes {
			if other != n && !slices.Contains(connections[n], other) {
				g[n] = append(g[n], other)
			}
		}
	}
	return tidy(g)
}

// Bisect cuts nodes in two halves, of which the first is the smaller one if
// their number is odd.
func Bisect(nodes []string) (first, second []string) {
	return nodes[:len(nodes)/2], nodes[len(nodes)/2:]
}

// SplitOne cuts the first node off from the others.
func SplitOne(nodes []string) (loner, rest []string) { return nodes[:1], nodes[1:] }

// Bridge halves the network but for one node of the larger half, which hears and
// is heard by all.
func Bridge(nodes []string) cluster.Grudge {
	first, second := Bisect(nodes)
	g := CompleteGrudge(first, second)
	if len(second) == 0 {
		return g
	}
	bridge := second[0]
	delete(g, bridge)
	for n := range g {
		g[n] = slices.DeleteFunc(g[n], func(m string) bool { return m == bridge })
	}
	return tidy(g)
}

// OneWayGrudge makes the first node deaf: it hears nobody, and all hear it.
func OneWayGrudge(nodes []string) cluster.Grudge {
	return tidy(cluster.Grudge{nodes[0]: slices.Clone(nodes[1:])})
}

// RingGrudge lets every node hear a majority. Up to five nodes no two hear the
// same one: the nodes, in the given order, form a ring, and each hears the
// window of which it is the middle. Among more nodes, connections are added at
// random until everybody has enough.
func RingGrudge(rng *rand.Rand, nodes []string) cluster.Grudge {
	n := len(nodes)
	m := majority(n)
	hears := map[string][]string{}
	if n <= 5 {
		for start := range nodes {
			var window []string
			for k := range m {
				window = append(window, nodes[(start+k)%n])
			}
			hears[window[m/2]] = window
		}
		return InvertGrudge(nodes, hears)
	}
	for _, node := range nodes {
		hears[node] = []string{node}
	}
	for {
		order := shuffled(rng, nodes) // among equals, anyone
		slices.SortStableFunc(order, func(a, b string) int { return len(hears[a]) - len(hears[b]) })
		a := order[0]
		if len(hears[a]) >= m {
			return InvertGrudge(nodes, hears)
		}
		for _, b := range order[1:] {
			if !slices.Contains(hears[a], b) {
				hears[a], hears[b] = append(hears[a], b), append(hears[b], a)
				break
			}
		}
	}
}

// tidy sorts a grudge and leaves out the nodes that hold none.
func tidy(g cluster.Grudge) cluster.Grudge {
	for n, others := range g {
		if len(others) == 0 {
			delete(g, n)
			continue
		}
		slices.Sort(others)
	}
	return g
}

// grudgeValue renders a grudge as the value of an operation.
func grudgeValue(g cluster.Grudge) histories.Value {
	nodes := make([]string, 0, len(g))
	for n := range g {
		nodes = append(nodes, n)
	}
	slices.Sort(nodes)
	var es []histories.Entry
	for _, n := range nodes {
		es = append(es, histories.Entry{Key: histories.String(n), Value: texts(g[n])})
	}
	return histories.MapOf(es...)
}

// grudgeOf is the inverse of grudgeValue.
func grudgeOf(v histories.Value) (cluster.Grudge, bool) {
	es, ok := v.Map()
	g := cluster.Grudge{}
	for _, e := range es {
		n, isText := e.Key.Str()
		others, isList := names(e.Value)
		ok = ok && isText && isList
		g[n] = others
	}
	return g, ok
}

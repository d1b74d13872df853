package jepsentest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
)

// Decorators say about a spec what is otherwise buried in its code, where
// neither reports nor label filters see it. Each becomes a label of the form
// key:value. They go where Ginkgo's own decorators go (except into the entries
// of a table, where they would be parameters):
//
//	It("survives", jepsentest.Nodes(5), jepsentest.WithNemesis("kill"), jepsentest.For(time.Minute), func(ctx SpecContext) { … })
//
//	go test ./suites/mydb -ginkgo.label-filter='nemesis: containsAny {kill}'
type (
	// Nodes is the number of nodes: [RunSpec] uses nodes n1, n2, … if the
	// test names none. Label nodes:5.
	Nodes int
	// Seed is the seed of the test, if it gives none itself. Label seed:7.
	Seed uint64
	// For is how long the main phase would like to run: what [MainPhase] takes
	// if it is asked for 0. Label for:1m0s.
	For time.Duration
	// WithNemesis names the faults. It is only a label: nemesis:kill.
	WithNemesis string
)

func init() { ginkgo.AddTreeConstructionNodeArgsTransformer(labelDecorators) }

// labelDecorators turns our decorators, which Ginkgo does not know, into labels.
func labelDecorators(_ types.NodeType, _ ginkgo.Offset, text string, args []any) (string, []any, []error) {
	for i, a := range args {
		switch a := a.(type) {
		case Nodes:
			args[i] = ginkgo.Label(fmt.Sprintf("nodes:%d", int(a)))
		case Seed:
			args[i] = ginkgo.Label(fmt.Sprintf("seed:%d", uint64(a)))
		case For:
			args[i] = ginkgo.Label("for:" + time.Duration(a).String())
		case WithNemesis:
			args[i] = ginkgo.Label("nemesis:" + string(a))
		}
	}
	return text, args, nil
}

// specLabel returns the value of the innermost label of the current spec with
// the given key.
func specLabel(key string) (value string, ok bool) {
	for _, l := range ginkgo.CurrentSpecReport().Labels() {
		if k, v, isPair := strings.Cut(l, ":"); isPair && k == key {
			value, ok = v, true
		}
	}
	return value, ok
}

// decorate fills in what a test leaves open and its spec's decorators say.
func decorate(t *Test) {
	if v, ok := specLabel("seed"); ok && t.Seed == 0 {
		if n, err := strconv.ParseUint(v, 10, 64); err == nil {
			t.Seed = n
		}
	}
	if v, ok := specLabel("nodes"); ok && len(t.Nodes) == 0 {
		if n, err := strconv.Atoi(v); err == nil {
			t.Nodes = NodeNames(n)
		}
	}
}

// NodeNames returns n1, n2, … up to n nodes.
func NodeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i+1)
	}
	return names
}

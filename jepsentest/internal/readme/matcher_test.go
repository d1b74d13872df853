package readme

import (
	"fmt"

	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/jepsentest"
	"github.com/onsi/gomega/types"
)

// reads is what the fold keeps: acknowledged additions so far, by operation
// number, and the first read that showed less than had been acknowledged before
// it began.
type reads struct {
	acked int64
	begun map[histories.Process]int64 // acked when the open read began
	wrong string
}

// HaveMonotonicReads succeeds if no read misses an addition that had been
// acknowledged before the read began.
func HaveMonotonicReads() types.GomegaMatcher {
	fold := folds.Fold[*reads, string]{
		Name: "monotonic reads",
		New:  func() *reads { return &reads{begun: map[histories.Process]int64{}} },
		Step: func(r *reads, op histories.Op) (*reads, error) {
			n, _ := op.Value.Int()
			switch {
			case op.F == "add" && op.Type == histories.OK:
				r.acked++
			case op.F == "read" && op.Type == histories.Invoke:
				r.begun[op.Process] = r.acked
			case op.F == "read" && op.Type == histories.OK && n < r.begun[op.Process]:
				r.wrong = fmt.Sprintf("%d additions had been acknowledged before this began: %v", r.begun[op.Process], op)
				return r, folds.ErrStop
			}
			return r, nil
		},
		Result: func(r *reads) (string, error) { return r.wrong, nil },
	}
	return jepsentest.FoldMatcher("have monotonic reads", fold, func(wrong string) (bool, string) { return wrong == "", wrong })
}

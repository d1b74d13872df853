// Package workload holds what many tests of databases have in common: what the
// clients do, and what must hold afterwards.
package workload

import (
	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/folds"
)

// Workload is a generator with the checks that belong to it.
type Workload struct {
	// Generator is the main phase: operations without end, as fast as they
	// are asked for. Limit and pace it with the combinators of dsl.
	Generator dsl.Generator
	// Final is the last phase, after all faults have been healed: what must be
	// read to see how everything ended. It ends by itself.
	Final dsl.Generator
	// Checkers judge the history of both.
	Checkers []folds.Checker
}

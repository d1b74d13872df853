package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/jepsentest"
	"github.com/jepsentest/go/jepsentest/sim"
	"github.com/jepsentest/go/jepsentest/workload"
)

// demoCommand tests a simulated database. Finding the bug that was asked for is
// a success of the demonstration, so it exits with 0 then.
type demoCommand struct {
	Bug       string        `help:"What is wrong with the database: ${enum}." enum:"lost-update,aborted-read,stale-read,none" default:"lost-update"`
	TimeLimit time.Duration `help:"How long to test." default:"3s"`
	Seed      uint64        `help:"Seed of the random choices; 0 draws one." default:"0"`
	Store     string        `help:"Where to store the run." default:"store" type:"path"`
}

func (d *demoCommand) Run(to *console) (err error) {
	stdout := to.out
	if d.TimeLimit <= 0 {
		return usageError{fmt.Errorf("--time-limit must be greater than zero")}
	}
	bug := sim.Bug(d.Bug)
	if d.Bug == "none" {
		bug = sim.NoBug
	}
	fmt.Fprintf(stdout, "Testing a simulated database (bug: %s) with 10 clients for %v.\n\n", d.Bug, d.TimeLimit)
	w := workload.Append(workload.AppendOptions{})
	db := sim.NewLists(sim.ListOptions{Bug: bug, Seed: d.Seed})
	rec, err := jepsentest.Run(context.Background(), jepsentest.Test{
		Name:          "demo",
		Client:        jepsentest.ClientFunc(db.Invoke),
		Concurrency:   10,
		Seed:          d.Seed,
		StoreDir:      d.Store,
		ProgressEvery: time.Second,
		Generator: dsl.Clients(dsl.Phases(
			dsl.TimeLimit(d.TimeLimit, w.Generator),
			w.Final,
		)),
		Options: map[string]string{"bug": d.Bug},
		Again: func(seed uint64) string {
			return fmt.Sprintf("go run ./jepsentest/cmd/jepsentest demo --bug %s --seed %d", d.Bug, seed)
		},
		Log: func(message string) { fmt.Fprintln(stdout, "  "+message) },
	})
	if rec != nil {
		defer func() { err = errors.Join(err, rec.Close()) }()
	}
	if err != nil {
		return err
	}
	reports, err := rec.Check(context.Background(), w.Checkers...)
	fmt.Fprintf(stdout, "\n%s\n", jepsentest.Explain(rec, reports...))
	if err != nil {
		fmt.Fprintln(stdout, err)
		return verdict(exitUnknown)
	}
	var worst folds.Verdict
	for _, r := range reports {
		worst = folds.Worst(worst, r.Verdict)
	}
	switch found := worst == folds.Invalid; {
	case found && bug == sim.NoBug:
		return verdict(exitInvalid)
	case !found && bug != sim.NoBug:
		fmt.Fprintln(stdout, "\nThe bug was not seen this time; give it longer with --time-limit 10s.")
		return verdict(exitUnknown)
	}
	return nil
}

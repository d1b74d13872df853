package store_test

import (
	"fmt"
	"os"
	"time"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/store"
)

func Example() {
	dir, err := os.MkdirTemp("", "runs")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	run, err := store.Root(dir).NewRun("register", time.Now())
	if err != nil {
		panic(err)
	}
	w, err := store.Create(run.History(), store.Options{})
	if err != nil {
		panic(err)
	}
	for i, op := range []histories.Op{
		{Process: 0, Type: histories.Invoke, F: "write", Value: histories.Int(1)},
		{Process: 1, Type: histories.Invoke, F: "read"},
		{Process: 0, Type: histories.OK, F: "write", Value: histories.Int(1)},
		{Process: 1, Type: histories.OK, F: "read", Value: histories.Int(1)},
	} {
		op.Index, op.Time = int64(i), time.Duration(i)*time.Millisecond
		if err := w.Append(&op); err != nil {
			panic(err)
		}
	}
	if err := w.SetResults(histories.Bool(true)); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}

	f, err := run.Open(store.Options{})
	if err != nil {
		panic(err)
	}
	defer f.Close()
	for op, err := range f.History().All() {
		if err != nil {
			panic(err)
		}
		fmt.Println(op)
	}
	results, err := f.Results()
	fmt.Println("valid:", results.Verdict, err)
	// Output:
	// #0 0.000000s 0 invoke :write 1
	// #1 0.001000s 1 invoke :read nil
	// #2 0.002000s 0 ok :write 1
	// #3 0.003000s 1 ok :read 1
	// valid: true <nil>
}

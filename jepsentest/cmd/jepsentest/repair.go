package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/jepsentest/go/store"
)

type verifyCommand struct {
	storeFlag
	Runs []string `arg:"" name:"run" help:"Runs or files to verify."`
}

// Run exits with 1 if anything is damaged.
func (c *verifyCommand) Run(to *console) error {
	stdout := to.out
	damaged := false
	for _, run := range c.Runs {
		path, err := c.find(run)
		if err != nil {
			return err
		}
		n, err := store.Verify(path, store.Options{}, func(e *store.CorruptError) { fmt.Fprintf(stdout, "%v\n", e) })
		if err != nil {
			return err
		}
		if n > 0 {
			damaged = true
			fmt.Fprintf(stdout, "%s: %d places are damaged; \"jepsentest recover\" writes a good file from the rest\n", path, n)
			continue
		}
		fmt.Fprintf(stdout, "%s: intact\n", path)
	}
	if damaged {
		return verdict(exitInvalid)
	}
	return nil
}

type recoverCommand struct {
	storeFlag
	Run_ string `arg:"" name:"run" help:"The damaged run or file."`
	To   string `arg:"" help:"The file to write. It must not exist." type:"path"`
}

func (c *recoverCommand) Run(to *console) error {
	stdout := to.out
	path, err := c.find(c.Run_)
	if err != nil {
		return err
	}
	rec, err := store.Recover(path, c.To, func(e *store.CorruptError) { fmt.Fprintf(stdout, "%v\n", e) })
	if err != nil {
		return err
	}
	if rec.Chunks == 0 {
		fmt.Fprintf(stdout, "%s: nothing of a history is left in it\n", path)
		return errors.Join(verdict(exitInvalid), os.Remove(c.To))
	}
	fmt.Fprintf(stdout, "%d entries of %d intact chunks written to %s; %d chunks are lost\n", rec.Ops, rec.Chunks, c.To, rec.Lost)
	return nil
}

type compactCommand struct {
	storeFlag
	Runs []string `arg:"" name:"run" help:"Runs or files to compact."`
}

func (c *compactCommand) Run(to *console) error {
	stdout := to.out
	for _, run := range c.Runs {
		path, err := c.find(run)
		if err != nil {
			return err
		}
		before, after, err := store.Compact(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s: %d bytes became %d\n", path, before, after)
	}
	return nil
}

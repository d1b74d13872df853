// Command jepsentest works with recorded tests of databases.
//
// Exit codes: 0 valid, 1 invalid, 2 unknown, 254 wrong usage, 255 internal error.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
)

// The exit codes.
const (
	exitValid    = 0
	exitInvalid  = 1
	exitUnknown  = 2
	exitUsage    = 254
	exitInternal = 255
)

// commands are what the program can do.
type commands struct {
	Demo    demoCommand    `cmd:"" help:"Test a simulated database with a bug, and show what a failure looks like."`
	Ls      lsCommand      `cmd:"" help:"List the stored runs, newest first."`
	Show    showCommand    `cmd:"" help:"Show a run: what is stored about it, and its operations."`
	Export  exportCommand  `cmd:"" help:"Write the history of a run in EDN or JSON."`
	Import  importCommand  `cmd:"" help:"Store a history in EDN or JSON as a run."`
	Verify  verifyCommand  `cmd:"" help:"Check every checksum and reference of runs."`
	Recover recoverCommand `cmd:"" help:"Write a good file from what is intact of a damaged one."`
	Compact compactCommand `cmd:"" help:"Make the files of runs smaller."`
}

// console is where a command writes.
type console struct {
	out io.Writer // what was asked for
	err io.Writer // what must be said besides
}

// verdict is an error that only carries an exit code: everything has been said.
type verdict int

func (v verdict) Error() string { return fmt.Sprintf("exit code %d", int(v)) }

// usageError is a mistake in the arguments that only the command itself can see.
type usageError struct{ error }

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run carries out a command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	var c commands
	exit := -1
	parser, err := kong.New(&c,
		kong.Name("jepsentest"),
		kong.Description("Tests of databases: what they recorded, and what it proves."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exit = code }),
		kong.Bind(&console{stdout, stderr}),
	)
	if err != nil {
		fmt.Fprintln(stderr, "jepsentest:", err)
		return exitInternal
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	ctx, err := parser.Parse(args)
	if exit >= 0 { // --help has been printed
		return exit
	}
	if err != nil {
		fmt.Fprintf(stderr, "jepsentest: %v\nRun \"jepsentest --help\" for what there is.\n", err)
		return exitUsage
	}
	err = ctx.Run()
	var v verdict
	var usage usageError
	switch {
	case err == nil:
		return exitValid
	case errors.As(err, &v):
		return int(v)
	case errors.As(err, &usage):
		fmt.Fprintln(stderr, "jepsentest:", err)
		return exitUsage
	}
	fmt.Fprintln(stderr, "jepsentest:", err)
	return exitInternal
}

// Package jepsentest tests databases: many clients work on a real cluster
// while faults are brought about, everything that they did and saw is recorded,
// and afterwards the recording is held against the guarantees that the
// database makes.
//
// A test is a [Test] value; [Run] carries it out and returns the [Recording].
// What must hold is said with Gomega matchers over the recording:
//
//	It("is strict serializable while nodes crash", func(ctx SpecContext) {
//		rec, err := jepsentest.Run(ctx, jepsentest.Test{
//			Name:      "mydb-append",
//			Nodes:     []string{"n1", "n2", "n3"},
//			DB:        db,                      // starts and stops the cluster
//			Client:    client{},                // how to talk to it
//			Nemesis:   faults,                  // what goes wrong
//			Generator: append.Generator(…),     // what is done, and when
//		})
//		Expect(err).NotTo(HaveOccurred())
//		Expect(rec).To(jepsentest.HaveNoAnomalies("G1a", "G1b", "internal"))
//	})
//
// Run does not need Ginkgo: it works the same from a plain testing.T or a main
// function. What it guarantees:
//
//   - Every invocation is in the history before it is handed to a client, and
//     the history is on disk, crash-safe, while the test runs (package store).
//   - When Run returns, whatever the reason, faults have been healed, the
//     history has been saved, and the cluster has been taken down.
//   - A test that achieved nothing is an error, not a success: see [AssumptionError].
package jepsentest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/histories"
)

// Test describes a test. Only Client and Generator are mandatory. Use field
// names: fields will be added.
type Test struct {
	// Name says what is being tested; it is part of the path under which the
	// run is stored. Empty means "test". Letters, digits, '-', '_' and '.' only.
	Name string

	// Nodes are the names of the database's nodes. Client thread i talks to
	// node i modulo their number. Empty means a single node called "local".
	Nodes []string

	// DB starts the database before the test and stops it afterwards. Nil
	// means that it is there already.
	DB DB

	// Client is opened once for every process. Mandatory.
	Client Client

	// Nemesis carries out the operations of the thread "nemesis". Nil means
	// that there is none.
	Nemesis Nemesis

	// Lanes are further nemeses, by the names of their threads, whose faults
	// may overlap with those of Nemesis. See dsl.Named.
	Lanes map[string]Nemesis

	// Generator says what the clients and the nemesis do. Mandatory. Run holds
	// no reference to it once the test has begun.
	Generator dsl.Generator

	// Concurrency is the number of client threads. 0 means -jepsen.concurrency,
	// or if that is not given, twice the number of nodes.
	Concurrency int

	// Seed drives the random choices of the generator, and is recorded. 0
	// means a seed drawn for this run. -jepsen.seed replaces it.
	Seed uint64

	// OpTimeout is how long a client may take for one operation: its context
	// ends then. 0 means 5 s, a negative value that there is no limit.
	OpTimeout time.Duration

	// NemesisTimeout is how long a nemesis may take for one operation. 0 means a
	// minute, a negative value that there is no limit.
	NemesisTimeout time.Duration

	// Grace is how long a client that ignores its context is waited for
	// before it is abandoned, and how long clients have to finish when the
	// test is interrupted. 0 means 2 s.
	Grace time.Duration

	// MinRate is the number of successful client operations per second, over
	// the whole run, below which the run counts as having tested nothing. 0
	// means that one successful operation suffices; a negative value that
	// none is needed.
	MinRate float64

	// StoreDir is the directory in which runs are stored. Empty means
	// -jepsen.store, or if that is not given, "store" in the working directory.
	StoreDir string

	// Options are recorded with the run: whatever somebody who looks at it
	// later must know, such as versions and flags.
	Options map[string]string

	// ProgressEvery is the time between two progress messages to Log; 0 means 5 s.
	ProgressEvery time.Duration

	// Again makes the command that runs this test again with a seed; it is
	// shown after a failure. Nil means one that sets JEPSEN_SEED.
	Again func(seed uint64) string

	// Log receives what is worth telling a person while the test runs, one
	// message per call; it must be safe for concurrent use. Messages also go to
	// run.log in the directory of the run. Nil means only there.
	Log func(message string)
}

// DB starts and stops the database.
type DB interface {
	// Setup starts the database on all nodes, empty, and returns when it
	// answers. On error it leaves nothing behind.
	Setup(ctx context.Context, env *Env) error
	// Teardown removes it, with everything that Setup made. It is called
	// exactly once after a successful Setup, with a context that has time left
	// even if the test was interrupted.
	Teardown(ctx context.Context, env *Env) error
}

// LogCollector is a [DB] that can save the logs of its nodes. It is called
// after the test, before Teardown, also if the test failed.
type LogCollector interface {
	// CollectLogs writes the log files of each node to a folder of its name in dir.
	CollectLogs(ctx context.Context, dir string) error
}

// Env is what the parts of a test are told about the run they are part of.
type Env struct {
	RunID string   // unique among all runs
	Dir   string   // where the run is stored; artifacts may be put there
	Nodes []string // the nodes of the test
	Seed  uint64
	// Logf tells a person what is going on.
	Logf func(format string, args ...any)
}

// Client talks to the database. The Client of a [Test] is a prototype: it is
// never invoked itself, only opened.
type Client interface {
	// Open connects to a node and returns the client that did. It must not
	// change the state of the database.
	Open(ctx context.Context, node string) (Client, error)
	// Invoke carries out an operation and returns the value of its completion.
	//
	// An error made by [Definite] says that the operation certainly did not and
	// will not take place: the completion is Fail. Any other error, and a
	// panic, leave that open: it is Info, the process has crashed, and its
	// thread goes on with a new process and a new client. When in doubt, do not
	// say Definite.
	//
	// op must not be used after Invoke has returned a value. If something goes
	// on after it has returned an error, that may read op.
	Invoke(ctx context.Context, op *histories.Op) (histories.Value, error)
	// Close ends the connection. It is called once for each client opened.
	Close(ctx context.Context) error
}

// Setupper is a [Client] that prepares the database (tables, initial values).
// Before the test a client is opened to the first node, its Setup is called, and
// it is closed.
type Setupper interface {
	Setup(ctx context.Context) error
}

// Reusable is a [Client] that survives a crash of its process: when Reusable
// returns true the next process of the thread uses it, too.
type Reusable interface {
	Reusable() bool
}

// Nemesis brings about faults. Its operations are recorded as pairs of entries
// that mark the beginning and the end of what it did.
type Nemesis interface {
	// Invoke carries out one operation and returns what it did. An error is
	// recorded with the operation; the test goes on.
	Invoke(ctx context.Context, op *histories.Op) (histories.Value, error)
	// Heal undoes every fault and verifies that it is undone. It is called at
	// the end of every run, also if the nemesis never did anything; an error
	// is an error of the run.
	Heal(ctx context.Context) error
}

// NemesisSetup is a [Nemesis] that has something to prepare or to check (that
// the nodes have the capabilities it needs) before the test begins.
type NemesisSetup interface {
	Setup(ctx context.Context) error
}

// EffectChecker is a [Nemesis] that can tell whether its faults had an effect.
// It is asked after the test. The error says which fault had none, and fails
// the run: a test under faults that did nothing has not tested anything.
type EffectChecker interface {
	CheckEffects(ctx context.Context) error
}

// Definite marks an error of a client as definite: the operation did not take
// place and never will.
func Definite(err error) error {
	if err == nil {
		return nil
	}
	return &definiteError{err}
}

type definiteError struct{ error }

func (e *definiteError) Unwrap() error  { return e.error }
func (e *definiteError) Definite() bool { return true }

// IsDefinite reports whether err, or an error that it wraps, was made by
// [Definite], or has a method Definite that returns true.
func IsDefinite(err error) bool {
	var d interface{ Definite() bool }
	return errors.As(err, &d) && d.Definite()
}

// ClientFunc makes a [Client] of a function that needs no connection.
type ClientFunc func(ctx context.Context, op *histories.Op) (histories.Value, error)

// Open returns f itself.
func (f ClientFunc) Open(context.Context, string) (Client, error) { return f, nil }

// Invoke calls f.
func (f ClientFunc) Invoke(ctx context.Context, op *histories.Op) (histories.Value, error) {
	return f(ctx, op)
}

// Close does nothing.
func (f ClientFunc) Close(context.Context) error { return nil }

// AssumptionError says that a run is worth nothing because something on which
// every judgement rests did not hold: no operation succeeded, or a fault had
// no effect. The recording is there to be looked at.
type AssumptionError struct{ Reason string }

func (e *AssumptionError) Error() string { return "the run proves nothing: " + e.Reason }

// ConfigError says what is wrong with a [Test].
type ConfigError struct{ Problem string }

func (e *ConfigError) Error() string { return "test is misconfigured: " + e.Problem }

func configErrorf(format string, args ...any) error {
	return &ConfigError{fmt.Sprintf(format, args...)}
}

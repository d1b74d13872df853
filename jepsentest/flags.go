package jepsentest

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options are what is set on the command line or in the environment: each flag
// -jepsen.NAME has a twin JEPSEN_NAME (in capitals, with _ for -), over which
// the flag wins. Zero values mean that the test decides.
type Options struct {
	// TimeLimit replaces the time for which specs run their main phase.
	TimeLimit time.Duration
	// Concurrency is the number of client threads: a number, or a multiple of
	// the number of nodes written like 2n.
	Concurrency string
	// Rate replaces the number of operations per second that specs aim at.
	Rate float64
	// Seed replaces the seed of all tests.
	Seed uint64
	// Nodes replaces the number of nodes.
	Nodes int
	// Store is the directory in which runs are stored.
	Store string
	// KeepNodes leaves the nodes running after the test, to be looked at.
	KeepNodes bool
	// FoldTrace writes what the checkers' folds did to fold-trace.json in the
	// directory of the run, for chrome://tracing or ui.perfetto.dev.
	FoldTrace bool
}

// option describes one flag.
type option struct {
	name, usage string
	set         func(o *Options, text string) error
	isBool      bool
}

var concurrencyPattern = regexp.MustCompile(`^[1-9][0-9]*n?$`)

var options = []option{
	{"time-limit", "run the main phase of each spec for this `duration`, such as 30s", func(o *Options, s string) (err error) {
		o.TimeLimit, err = time.ParseDuration(s)
		if err == nil && o.TimeLimit <= 0 {
			err = fmt.Errorf("a duration greater than zero is needed")
		}
		return err
	}, false},
	{"concurrency", "use this `number` of client threads; 2n means twice the number of nodes", func(o *Options, s string) error {
		if !concurrencyPattern.MatchString(s) {
			return fmt.Errorf("a number such as 10, or a multiple of the nodes such as 2n, is needed")
		}
		o.Concurrency = s
		return nil
	}, false},
	{"rate", "aim at this `number` of operations per second", func(o *Options, s string) (err error) {
		o.Rate, err = strconv.ParseFloat(s, 64)
		if err == nil && !(o.Rate >= 1e-6 && o.Rate <= 1e9) {
			err = fmt.Errorf("a number greater than zero is needed, from 0.000001 to 1000000000")
		}
		return err
	}, false},
	{"seed", "use this `number` as the seed of every test", func(o *Options, s string) (err error) {
		o.Seed, err = strconv.ParseUint(s, 0, 64)
		return err
	}, false},
	{"nodes", "use this `number` of nodes", func(o *Options, s string) (err error) {
		o.Nodes, err = strconv.Atoi(s)
		if err == nil && o.Nodes < 1 {
			err = fmt.Errorf("at least one node is needed")
		}
		return err
	}, false},
	{"store", "store runs in this `directory` (default \"store\")", func(o *Options, s string) error {
		o.Store = s
		return nil
	}, false},
	{"keep-nodes", "leave the nodes running after the test", func(o *Options, s string) (err error) {
		o.KeepNodes, err = strconv.ParseBool(s)
		return err
	}, true},
	{"fold-trace", "write what the checkers did to fold-trace.json beside the history, for chrome://tracing", func(o *Options, s string) (err error) {
		o.FoldTrace, err = strconv.ParseBool(s)
		return err
	}, true},
}

// flagValues are the texts given on the command line, by name.
var flagValues = map[string]string{}

// textFlag is a flag.Value that checks what it is given at once and keeps the text.
type textFlag struct{ option }

func (f textFlag) String() string   { return flagValues[f.name] }
func (f textFlag) IsBoolFlag() bool { return f.isBool }
func (f textFlag) Set(s string) error {
	if err := f.set(new(Options), s); err != nil {
		return err
	}
	flagValues[f.name] = s
	return nil
}

// Test binaries parse their flags before any test runs, so flags must be
// registered when the package is initialised.
func init() {
	for _, o := range options {
		flag.CommandLine.Var(textFlag{o}, "jepsen."+o.name, o.usage)
	}
}

func envName(option string) string {
	return "JEPSEN_" + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
}

// Flags returns what was set by -jepsen.* flags and JEPSEN_* variables. It must
// be called after the flags have been parsed: inside a test, or inside the
// closure of a Ginkgo container. An unknown variable or a bad value is an error
// that names it.
func Flags() (Options, error) { return parseOptions(flagValues, os.Environ()) }

// corpusVariable names the folder of other people's histories for the tests of
// this module; it is no option.
const corpusVariable = "JEPSEN_CORPUS"

func parseOptions(flags map[string]string, environ []string) (Options, error) {
	var o Options
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "JEPSEN_") || name == corpusVariable {
			continue
		}
		i := slices.IndexFunc(options, func(o option) bool { return envName(o.name) == name })
		if i < 0 {
			return Options{}, configErrorf("unknown variable %s in the environment; known are %s", name, knownVariables())
		}
		if value == "" {
			continue // as good as unset
		}
		if err := options[i].set(&o, value); err != nil {
			return Options{}, configErrorf("variable %s=%s: %v", name, value, err)
		}
	}
	for _, opt := range options {
		if value, given := flags[opt.name]; given {
			if err := opt.set(&o, value); err != nil {
				return Options{}, configErrorf("flag -jepsen.%s=%s: %v", opt.name, value, err)
			}
		}
	}
	return o, nil
}

func knownVariables() string {
	var names []string
	for _, o := range options {
		names = append(names, envName(o.name))
	}
	return strings.Join(names, ", ")
}

// Threads resolves the option Concurrency for a number of nodes; without it,
// def is the answer, which may be a multiple such as "2n" as well.
func (o Options) Threads(nodes int, def string) (int, error) {
	s := o.Concurrency
	if s == "" {
		s = def
	}
	if !concurrencyPattern.MatchString(s) {
		return 0, configErrorf("concurrency %q: a number such as 10, or a multiple of the nodes such as 2n, is needed", s)
	}
	digits, perNode := strings.CutSuffix(s, "n")
	n, err := strconv.Atoi(digits)
	if err != nil || n > 1<<20 {
		return 0, configErrorf("concurrency %q is too large", s)
	}
	if perNode {
		n *= nodes
	}
	return n, nil
}

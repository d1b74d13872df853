package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/store"
)

// storeFlag says where runs are stored.
type storeFlag struct {
	Store string `help:"Directory in which runs are stored." default:"store" type:"path" env:"JEPSEN_STORE"`
}

// find returns the path of the history that a user means by run: a path to a
// run or to a file, or, in the store, "latest", the name of a test (its newest
// run), or NAME/TIME.
func (s storeFlag) find(run string) (string, error) {
	root := store.Root(s.Store)
	candidates := []string{run, filepath.Join(s.Store, run)}
	if newest, err := root.Latest(run); err == nil {
		candidates = append(candidates, newest.Dir)
	}
	for _, c := range candidates {
		path, err := store.FindHistory(c)
		switch {
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	return "", usageError{fmt.Errorf("there is no run %q, neither as a path nor in %s; \"jepsentest ls\" lists the runs", run, s.Store)}
}

// open opens the history of a run, and says on the console if it is not whole.
func (s storeFlag) open(run string, c *console) (*store.File, error) {
	path, err := s.find(run)
	if err != nil {
		return nil, err
	}
	f, err := store.Open(path, store.Options{})
	if err != nil {
		return nil, err
	}
	switch {
	case f.Damaged():
		fmt.Fprintf(c.err, "jepsentest: %s is damaged; this is what its last intact state holds. \"jepsentest recover\" may find more.\n", path)
	case !f.Complete():
		fmt.Fprintf(c.err, "jepsentest: %s has no end: its test is running, or was killed.\n", path)
	}
	return f, nil
}

type lsCommand struct {
	storeFlag
	Name string `arg:"" optional:"" help:"List only the runs of the test with this name."`
}

func (c *lsCommand) Run(to *console) error {
	stdout := to.out
	runs, err := store.Root(c.Store).Runs(c.Name)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		fmt.Fprintf(stdout, "No runs in %s.\n", c.Store)
		return nil
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TIME\tNAME\tVERDICT\tENTRIES\tDIRECTORY")
	for _, r := range runs {
		verdict, entries := describe(r)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Time.Local().Format(time.DateTime), r.Name, verdict, entries, r.Dir)
	}
	return w.Flush()
}

// describe returns the verdict and the number of entries of a run, or what is
// the matter with it.
func describe(r store.Run) (verdict, entries string) {
	f, err := r.Open(store.Options{})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no history", ""
	case err != nil:
		return "unreadable", ""
	}
	defer f.Close()
	entries = fmt.Sprint(f.Len())
	res, err := f.Results()
	switch {
	case err != nil:
		return "unreadable", entries
	case res != nil:
		verdict, _ = res.Verdict.Keyword()
		return verdict, entries
	case !f.Complete():
		return "incomplete", entries
	}
	return "not checked", entries
}

type showCommand struct {
	storeFlag
	Run_    string   `arg:"" name:"run" help:"A run: its directory or file, \"latest\", or the name of a test."`
	From    moment   `help:"Begin at this index (1000) or time (12.5s)." placeholder:"WHERE"`
	To      moment   `help:"End before this index or time." placeholder:"WHERE"`
	Process []string `help:"Only these processes: numbers, or names such as nemesis." placeholder:"P"`
	F       []string `help:"Only operations with these f's." placeholder:"F"`
	Type    []string `help:"Only entries of these types: invoke, ok, fail, info." placeholder:"TYPE"`
	Meta    bool     `help:"Show only what is stored about the run, not its operations."`
}

// moment is a place in a history: an index or a time.
type moment struct {
	given  bool
	isTime bool
	index  int64
	time   time.Duration
}

// UnmarshalText reads an index or a time.
func (m *moment) UnmarshalText(text []byte) error {
	m.given = true
	if _, err := fmt.Sscanf(string(text), "%d", &m.index); err == nil && fmt.Sprint(m.index) == string(text) {
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("an index such as 1000 or a time such as 12.5s is needed, not %q", text)
	}
	m.isTime, m.time = true, d
	return nil
}

func (c *showCommand) Run(to *console) (err error) {
	stdout := to.out
	f, err := c.open(c.Run_, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := showMeta(stdout, f); err != nil || c.Meta {
		return err
	}
	h, err := c.filter(f.History())
	if err != nil {
		return err
	}
	for op, err := range h.All() {
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(stdout, printable(op.Format(h.ProcessName(op.Process)))); err != nil {
			return err
		}
	}
	return nil
}

// showMeta writes the metadata and the results of a run, as comments.
func showMeta(w io.Writer, f *store.File) error {
	meta, err := f.Meta()
	if err != nil {
		return err
	}
	entries, _ := meta.Map()
	for _, e := range entries {
		fmt.Fprintln(w, printable(fmt.Sprintf("# %v %v", e.Key, e.Value)))
	}
	res, err := f.Results()
	if err != nil || res == nil {
		return err
	}
	fmt.Fprintf(w, "# :verdict %v\n", res.Verdict)
	for _, name := range res.Names() {
		v, _, err := res.Get(name)
		if err != nil {
			return err
		}
		summary, _ := v.Lookup(histories.Keyword("summary"))
		text, _ := summary.Str()
		verdict, _ := v.Lookup(histories.Keyword("verdict"))
		fmt.Fprintln(w, printable(fmt.Sprintf("# %s %v %s", name, verdict, text)))
	}
	return nil
}

// printable replaces what would move a terminal's cursor, or worse.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// filter narrows a history to what was asked for.
func (c *showCommand) filter(h histories.History) (histories.History, error) {
	var preds []histories.Pred
	if len(c.Type) > 0 {
		var types []histories.Type
		for _, s := range c.Type {
			t, ok := histories.ParseType(s)
			if !ok {
				return nil, usageError{fmt.Errorf("--type %s: invoke, ok, fail or info is needed", s)}
			}
			types = append(types, t)
		}
		preds = append(preds, histories.ByType(types...))
	}
	if len(c.F) > 0 {
		preds = append(preds, histories.ByF(c.F...))
	}
	if len(c.Process) > 0 {
		wanted := map[string]bool{}
		for _, p := range c.Process {
			wanted[strings.TrimPrefix(p, ":")] = true
		}
		preds = append(preds, histories.Pred{Columns: histories.ColProcess,
			Match: func(ch *histories.Chunk, i int) bool { return wanted[h.ProcessName(ch.Process[i])] }})
	}
	preds = append(preds, between(c.From, c.To)...)
	if len(preds) == 0 {
		return h, nil
	}
	return histories.Filter(h, histories.And(preds...)), nil
}

// between returns the conditions of --from and --to.
func between(from, to moment) []histories.Pred {
	var preds []histories.Pred
	const forever = time.Duration(1<<63 - 1)
	if from.given && from.isTime || to.given && to.isTime {
		start, end := time.Duration(0), forever
		if from.isTime {
			start = from.time
		}
		if to.isTime {
			end = to.time
		}
		preds = append(preds, histories.Between(start, end))
	}
	if from.given && !from.isTime || to.given && !to.isTime {
		preds = append(preds, histories.Pred{Columns: histories.ColIndex, Match: func(c *histories.Chunk, i int) bool {
			n := c.IndexAt(i)
			return (!from.given || from.isTime || n >= from.index) && (!to.given || to.isTime || n < to.index)
		}})
	}
	return preds
}

// writeOutput lets write fill the file for -o, which appears when it is complete
// and takes the place of an older one only then; or stdout where none is given.
func writeOutput(path string, stdout io.Writer, write func(io.Writer) error) error {
	if path == "" || path == "-" {
		return write(stdout)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

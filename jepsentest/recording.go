package jepsentest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/store"
)

// Recording is what a run left behind: its history and where it is stored.
type Recording struct {
	Name    string
	RunID   string
	Dir     string // the directory of the run
	Seed    uint64
	Elapsed time.Duration // of the generator
	Counts  Counts
	History histories.History
	// Again is the command that runs the same test with the same seed.
	Again string

	file    *store.File
	path    string
	mu      sync.Mutex
	results map[string]histories.Value // of all checkers so far; nil until they are needed
}

// OpenRecording opens a stored run: its directory, or the file of its history.
func OpenRecording(path string) (*Recording, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, store.HistoryFile)
	}
	f, err := store.Open(path, store.Options{})
	if err != nil {
		return nil, fmt.Errorf("open run: %w", err)
	}
	r := &Recording{Dir: filepath.Dir(path), path: path, file: f, History: f.History()}
	meta, err := f.Meta()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open run: %w", err), f.Close())
	}
	get := func(key string) histories.Value {
		v, _ := meta.Lookup(histories.Keyword(key))
		return v
	}
	r.Name, _ = get("name").Str()
	r.RunID, _ = get("run").Str()
	r.Again, _ = get("again").Str()
	seed, _ := get("seed").Int()
	r.Seed = uint64(seed)
	return r, nil
}

// Verdict returns the verdict that is stored with the run: the worst of those
// of all checkers that judged it. The error is [ErrNotChecked] if none has yet.
func (r *Recording) Verdict() (folds.Verdict, error) {
	if err := r.file.Refresh(); err != nil {
		return folds.Unknown, fmt.Errorf("read verdict: %w", err)
	}
	res, err := r.file.Results()
	if err != nil {
		return folds.Unknown, fmt.Errorf("read verdict: %w", err)
	}
	if res == nil {
		return folds.Unknown, ErrNotChecked
	}
	word, _ := res.Verdict.Keyword()
	v, ok := folds.ParseVerdict(word)
	if !ok {
		return v, fmt.Errorf("read verdict: %v is none", res.Verdict)
	}
	return v, nil
}

// ErrNotChecked says that no checker has judged a run yet.
var ErrNotChecked = errors.New("the run has not been checked")

// Close closes the file of the history.
func (r *Recording) Close() error { return r.file.Close() }

// GomegaString keeps failure messages to a line.
func (r *Recording) GomegaString() string {
	return fmt.Sprintf("run %s: %v, seed %d, stored in %s", r.Name, r.Counts, r.Seed, r.Dir)
}

// save adds the reports of checkers to the stored results, in place of earlier
// ones of the same checkers. The worst verdict of all is that of the run.
func (r *Recording) save(reports ...*folds.Report) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(); err != nil {
		return fmt.Errorf("save results: %w", err)
	}
	for _, rep := range reports {
		r.results[rep.Check] = reportValue(rep)
	}
	names := make([]string, 0, len(r.results))
	for n := range r.results {
		names = append(names, n)
	}
	slices.Sort(names)
	results := make([]histories.Field, 0, len(names))
	for _, n := range names {
		results = append(results, histories.Field{Name: n, Value: r.results[n]})
	}
	w, err := store.OpenAppend(r.path, store.Options{})
	if err != nil {
		return fmt.Errorf("save results: %w", err)
	}
	err = w.SetResults(histories.Keyword(r.worst().String()), results...)
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("save results: %w", err)
	}
	return nil
}

// load reads the results that are stored already. r.mu is held.
func (r *Recording) load() error {
	if r.results != nil {
		return nil
	}
	if err := r.file.Refresh(); err != nil {
		return err
	}
	res, err := r.file.Results()
	if err != nil {
		return err
	}
	r.results = map[string]histories.Value{}
	if res == nil {
		return nil
	}
	for _, name := range res.Names() {
		v, _, err := res.Get(name)
		if err != nil {
			r.results = nil
			return err
		}
		r.results[name] = v.Clone()
	}
	return nil
}

// worst returns the worst verdict of all results. r.mu is held.
func (r *Recording) worst() folds.Verdict {
	var all []folds.Verdict
	for _, v := range r.results {
		word, _ := v.Lookup(histories.Keyword("verdict"))
		name, _ := word.Keyword()
		verdict, _ := folds.ParseVerdict(name)
		all = append(all, verdict)
	}
	return folds.Worst(all...)
}

// reportValue renders a report for the store.
func reportValue(rep *folds.Report) histories.Value {
	var anomalies []histories.Value
	for _, a := range rep.Anomalies {
		anomalies = append(anomalies, histories.MapOf(
			entry("type", histories.String(a.Type)),
			entry("text", histories.String(a.Text)),
			entry("ops", histories.Ints(a.Ops...))))
	}
	types := make([]string, 0, len(rep.Counts))
	for t := range rep.Counts {
		types = append(types, t)
	}
	slices.Sort(types)
	var counts []histories.Entry
	for _, t := range types {
		counts = append(counts, histories.Entry{Key: histories.String(t), Value: histories.Int(int64(rep.Counts[t]))})
	}
	return histories.MapOf(
		entry("verdict", histories.Keyword(rep.Verdict.String())),
		entry("summary", histories.String(rep.Summary)),
		entry("counts", histories.MapOf(counts...)),
		entry("anomalies", histories.List(anomalies...)),
		entry("data", rep.Data))
}

func entry(key string, v histories.Value) histories.Entry {
	return histories.Entry{Key: histories.Keyword(key), Value: v}
}

// meta describes the run for whoever opens it later.
func (r *run) meta(begun time.Time) histories.Value {
	keys := make([]string, 0, len(r.Options))
	for k := range r.Options {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var options []histories.Entry
	for _, k := range keys {
		options = append(options, histories.Entry{Key: histories.String(k), Value: histories.String(r.Options[k])})
	}
	var nodes []histories.Value
	for _, n := range r.Nodes {
		nodes = append(nodes, histories.String(n))
	}
	version := "unknown"
	if b, ok := debug.ReadBuildInfo(); ok {
		version = b.Main.Version
	}
	return histories.MapOf(
		entry("name", histories.String(r.Name)),
		entry("run", histories.String(r.env.RunID)),
		entry("start", histories.String(begun.UTC().Format(time.RFC3339Nano))),
		entry("seed", histories.Int(int64(r.Seed))),
		entry("concurrency", histories.Int(int64(r.Concurrency))),
		entry("nodes", histories.List(nodes...)),
		entry("options", histories.MapOf(options...)),
		entry("again", histories.String(r.again())),
		entry("command", histories.String(strings.Join(os.Args, " "))),
		entry("go", histories.String(runtime.Version())),
		entry("version", histories.String(version)))
}

// again returns the command that runs this test again.
func (r *run) again() string {
	if r.Again != nil {
		return r.Again(r.Seed)
	}
	return fmt.Sprintf("JEPSEN_SEED=%d %s", r.Seed, filepath.Base(os.Args[0]))
}

// recording opens what has been written.
func (r *run) recording() (*Recording, error) {
	rec, err := OpenRecording(r.dir)
	if err != nil {
		return nil, err
	}
	rec.Elapsed, rec.Counts = r.elapsed, r.stats.counts()
	return rec, nil
}

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
)

// HistoryFile is the name of the block log in the directory of a run.
const HistoryFile = "history.jt"

// timeLayout is the name of a run's directory: the time at which it began, in
// UTC, to the millisecond. Names sort as times do.
const timeLayout = "20060102T150405.000Z"

// latestLink is the name of the links to the newest run.
const latestLink = "latest"

// Root is a directory of test runs:
//
//	<root>/<name>/<20060102T150405.000Z>/history.jt
//	<root>/<name>/latest  → the newest run of this test
//	<root>/latest         → the newest run of all
//
// Reports, plots and logs of the nodes lie next to the history. The links are
// for people; everything here reads the names.
type Root string

// Run is the directory of one test run.
type Run struct {
	Name string    // of the test
	Time time.Time // when it began, to the millisecond
	Dir  string    // its directory
}

// History returns the path of the run's block log.
func (r Run) History() string { return filepath.Join(r.Dir, HistoryFile) }

// Open opens the run's history for reading.
func (r Run) Open(opts Options) (*File, error) { return Open(r.History(), opts) }

// NewRun makes the directory of a run that begins at t, and points the links
// to it. If there is one of the same millisecond already, the run gets a time
// that is a little later. A name must be usable as that of a directory.
func (root Root) NewRun(name string, t time.Time) (Run, error) {
	if err := checkName(name); err != nil {
		return Run{}, fmt.Errorf("new run: %w", err)
	}
	parent := filepath.Join(string(root), name)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return Run{}, fmt.Errorf("new run: %w", err)
	}
	t = t.UTC().Truncate(time.Millisecond)
	for ; ; t = t.Add(time.Millisecond) {
		run := Run{Name: name, Time: t, Dir: filepath.Join(parent, t.Format(timeLayout))}
		err := os.Mkdir(run.Dir, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = errors.Join(syncDir(parent), syncDir(string(root)),
				relink(parent, filepath.Base(run.Dir)),
				relink(string(root), filepath.Join(name, filepath.Base(run.Dir))))
		}
		if err != nil {
			return Run{}, fmt.Errorf("new run: %w", err)
		}
		return run, nil
	}
}

// checkName reports whether a test's name can be that of a directory here and
// elsewhere, and is not taken for something else.
func checkName(name string) error {
	bad := func(c rune) bool { return strings.ContainsRune(`/\:*?"<>|`, c) || unicode.IsControl(c) }
	switch {
	case name == "" || name == latestLink || strings.HasPrefix(name, ".") || len(name) > 200:
		return fmt.Errorf("bad test name %q", name)
	case strings.ContainsFunc(name, bad):
		return fmt.Errorf("bad test name %q: it contains a character that file names cannot have", name)
	}
	return nil
}

// relink makes dir/latest a link to target, in one step: at no moment is there
// none. Where links need a privilege, there are no links.
func relink(dir, target string) error {
	tmp := filepath.Join(dir, fmt.Sprintf(".%s-%d", latestLink, time.Now().UnixNano()))
	if err := os.Symlink(target, tmp); err != nil {
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
			return nil
		}
		return err
	}
	if err := os.Rename(tmp, filepath.Join(dir, latestLink)); err != nil {
		os.Remove(tmp)
		return err
	}
	return nil
}

// Runs returns the runs of the test with this name, or of all tests if name is
// empty, newest first. Directories that are not named like runs are left out.
// A root that does not exist has none.
func (root Root) Runs(name string) ([]Run, error) {
	names := []string{name}
	if name == "" {
		entries, err := readDir(string(root))
		if err != nil {
			return nil, fmt.Errorf("list runs: %w", err)
		}
		names = names[:0]
		for _, e := range entries {
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
	}
	var runs []Run
	for _, name := range names {
		entries, err := readDir(filepath.Join(string(root), name))
		if err != nil {
			return nil, fmt.Errorf("list runs: %w", err)
		}
		for _, e := range entries {
			if t, err := time.Parse(timeLayout, e.Name()); err == nil && e.IsDir() {
				runs = append(runs, Run{name, t, filepath.Join(string(root), name, e.Name())})
			}
		}
	}
	slices.SortStableFunc(runs, func(a, b Run) int { return b.Time.Compare(a.Time) })
	return runs, nil
}

func readDir(dir string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// Latest returns the newest run of the test with this name, or of all tests if
// name is empty. If there is none, the error is [fs.ErrNotExist].
func (root Root) Latest(name string) (Run, error) {
	runs, err := root.Runs(name)
	if err != nil {
		return Run{}, err
	}
	if len(runs) == 0 {
		return Run{}, fmt.Errorf("no runs of %q in %s: %w", name, root, fs.ErrNotExist)
	}
	return runs[0], nil
}

// FindHistory returns the path of the block log that a user means by path: a
// block log, or the directory of a run, or a link to one.
func FindHistory(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("find history: %w", err)
	}
	if !info.IsDir() {
		return path, nil
	}
	file := filepath.Join(path, HistoryFile)
	if _, err := os.Stat(file); err != nil {
		return "", fmt.Errorf("find history: %w", err)
	}
	return file, nil
}

// IsBlockLog reports whether the file at path begins as a block log does.
func IsBlockLog(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	b := make([]byte, len(magic))
	n, err := f.ReadAt(b, 0)
	if n < len(b) {
		return false, nil
	}
	return string(b) == magic, err
}

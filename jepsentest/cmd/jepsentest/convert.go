package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/histories/edn"
	"github.com/jepsentest/go/histories/jsonl"
	"github.com/jepsentest/go/store"
)

// format is a notation of histories.
type format string

const (
	formatEDN  format = "edn"
	formatJSON format = "json"
)

// formatOf returns the format that was asked for, or that the name of a file
// suggests; "" if neither says.
func formatOf(asked, path string) format {
	if asked != "" && asked != "auto" {
		return format(asked)
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".edn":
		return formatEDN
	case ".json", ".jsonl", ".ndjson":
		return formatJSON
	}
	return ""
}

type exportCommand struct {
	storeFlag
	Run_   string `arg:"" name:"run" help:"A run: its directory or file, \"latest\", or the name of a test."`
	Format string `help:"edn (for Jepsen and elle-cli) or json; auto goes by the name of the output, and is edn otherwise." enum:"auto,edn,json" default:"auto"`
	Output string `help:"Write to this file instead of the standard output." short:"o" type:"path" placeholder:"FILE"`
}

func (c *exportCommand) Run(to *console) (err error) {
	stdout := to.out
	f, err := c.open(c.Run_, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if c.Output != "" {
		if out, err := os.Stat(c.Output); err == nil {
			if in, err := os.Stat(f.Path()); err == nil && os.SameFile(in, out) {
				return usageError{fmt.Errorf("-o %s is the history itself, which is no text", c.Output)}
			}
		}
	}
	return writeOutput(c.Output, stdout, func(w io.Writer) error {
		if formatOf(c.Format, c.Output) == formatJSON {
			return jsonl.WriteHistory(w, f.History())
		}
		return edn.WriteHistory(w, f.History())
	})
}

// opReader reads operations one by one; package edn and package jsonl have one.
type opReader interface {
	Read() (histories.Op, error)
	Names() histories.Names
}

// readerOf returns a reader of a text in the given format, or, if that is "", in
// the one that the beginning of the text shows.
func readerOf(f format, r io.Reader) opReader {
	if f == "" {
		b := bufio.NewReaderSize(r, 4096)
		start, _ := b.Peek(4096) // an error comes again when the text is read
		f, r = sniff(start), b
	}
	if f == formatJSON {
		return jsonl.NewReader(r)
	}
	return edn.NewReader(r)
}

// sniff tells JSON, in which the first thing in an object is a string, from EDN,
// in which the fields of an operation are keywords.
func sniff(start []byte) format {
	for _, c := range start {
		switch c {
		case ' ', '\t', '\r', '\n', '{', '[', ',':
			continue
		case '"':
			return formatJSON
		}
		break
	}
	return formatEDN
}

type importCommand struct {
	storeFlag
	File   string `arg:"" help:"A history in EDN or JSON; - is the standard input."`
	Format string `help:"edn or json; auto goes by the name of the file and its contents." enum:"auto,edn,json" default:"auto"`
	Name   string `help:"Name of the test; by default that of the file."`
}

func (c *importCommand) Run(to *console) (err error) {
	stdout := to.out
	var in io.Reader = os.Stdin
	name := c.Name
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return usageError{err}
		}
		defer f.Close()
		in = f
		if name == "" {
			name = strings.TrimSuffix(filepath.Base(c.File), filepath.Ext(c.File))
		}
	}
	if name == "" {
		name = "imported"
	}
	// The run comes into being when the import has succeeded.
	if err := os.MkdirAll(c.Store, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(c.Store, ".import-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	path := filepath.Join(tmp, store.HistoryFile)
	n, err := importInto(path, name, readerOf(formatOf(c.Format, c.File), in), c.File)
	switch {
	case err != nil:
		return fmt.Errorf("import %s: %w", c.File, err)
	case n == 0:
		return fmt.Errorf("import %s: it holds no operations", c.File)
	}
	run, err := store.Root(c.Store).NewRun(name, time.Now())
	if err != nil {
		return err
	}
	if err := os.Rename(path, run.History()); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d entries, stored in %s\n", n, run.Dir)
	return nil
}

// importInto copies a history into a block log, an operation at a time.
func importInto(path, name string, r opReader, source string) (n int64, err error) {
	w, err := store.Create(path, store.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	err = w.SetMeta(histories.MapOf(
		histories.Entry{Key: histories.Keyword("name"), Value: histories.String(name)},
		histories.Entry{Key: histories.Keyword("imported-from"), Value: histories.String(source)}))
	if err != nil {
		return 0, err
	}
	var number histories.Numberer
	for ; ; n++ {
		op, err := r.Read()
		if errors.Is(err, io.EOF) {
			return n, w.SetNames(r.Names())
		}
		if err == nil {
			err = number.Next(&op)
		}
		if err == nil {
			err = w.Append(&op)
		}
		if err != nil {
			return n, err
		}
	}
}

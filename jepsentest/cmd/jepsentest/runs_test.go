package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jepsentest/go/store"
)

// command runs a command line and returns what it printed.
func command(t *testing.T, want int, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(args, &stdout, &stderr); code != want {
		t.Fatalf("jepsentest %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), code, want, stdout.String(), stderr.String())
	}
	return stdout.String() + stderr.String()
}

const sample = `{:type :invoke, :process 0, :f :read, :value nil, :time 1000000000, :index 0}
{:type :info, :process :nemesis, :f :cut, :value {"n1" ["n2"]}, :phase :begin, :time 2000000000, :index 1}
{:type :ok, :process 0, :f :read, :value 3, :node "n1", :time 3000000000, :index 2}
{:type :invoke, :process 1, :f :write, :value 4, :time 4000000000, :index 3}
{:type :info, :process :nemesis, :f :cut, :value nil, :phase :end, :time 5000000000, :index 4}
{:type :info, :process 1, :f :write, :value 4, :error :timeout, :time 6000000000, :index 5}
`

func TestImportShowExport(t *testing.T) {
	dir := t.TempDir()
	file, root := filepath.Join(dir, "sample.edn"), filepath.Join(dir, "store")
	if err := os.WriteFile(file, []byte(sample), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := command(t, 0, "import", file, "--store", root); !strings.Contains(out, "6 entries, stored in "+root) {
		t.Error(out)
	}
	if out := command(t, 0, "ls", "--store", root); !strings.Contains(out, "sample") || !strings.Contains(out, "not checked") {
		t.Error(out)
	}
	// What is exported is what was imported, and JSON can be imported, too.
	for _, run := range []string{"latest", "sample", filepath.Join(root, "latest"), filepath.Join(root, "latest", store.HistoryFile)} {
		if out := command(t, 0, "export", run, "--store", root); out != sample {
			t.Errorf("%s: exported\n%s", run, out)
		}
	}
	exported := filepath.Join(dir, "again.json")
	command(t, 0, "export", "latest", "--store", root, "-o", exported)
	command(t, 0, "import", exported, "--store", root)
	if out := command(t, 0, "export", "again", "--store", root); strings.ReplaceAll(out, `"timeout"`, ":timeout") != sample {
		t.Errorf("by way of JSON:\n%s", out)
	}

	for _, c := range []struct {
		args string
		want string // the indices that are shown
	}{
		{"", "0 1 2 3 4 5"}, {"--type ok --type info", "1 2 4 5"}, {"--f read", "0 2"}, {"--process nemesis", "1 4"}, {"--process 1", "3 5"},
		{"--from 2 --to 4", "2 3"}, {"--from 2s --to 4s", "1 2"}, {"--from 3 --to 5.5s", "3 4"}, {"--to 1s", ""}, {"--meta", ""},
		{"--type info --process 1", "5"},
	} {
		var got []string
		for _, line := range strings.Split(command(t, 0, append([]string{"show", "sample", "--store", root}, strings.Fields(c.args)...)...), "\n") {
			if i, _, ok := strings.Cut(strings.TrimPrefix(line, "#"), " "); ok && i != "" {
				got = append(got, i)
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("show %s: got %s, want %s", c.args, s, c.want)
		}
	}
	for args, want := range map[string]string{
		"show nosuch":                 `there is no run "nosuch"`,
		"show sample --type great":    "invoke, ok, fail or info",
		"show sample --from sometime": "an index such as 1000 or a time such as 12.5s",
		"export sample --format xml":  "must be one of",
		"import " + file + "x":        "no such file",
	} {
		if out := command(t, exitUsage, append(strings.Fields(args), "--store", root)...); !strings.Contains(out, want) {
			t.Errorf("%s: %s", args, out)
		}
	}
}

func TestImportOfABadFileLeavesNoRun(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "bad.edn")
	if err := os.WriteFile(file, []byte(sample+"{:type :ok"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := command(t, exitInternal, "import", file, "--store", dir); !strings.Contains(out, "line 7, column 11: the text ends") {
		t.Error(out)
	}
	if out := command(t, 0, "ls", "--store", dir); !strings.Contains(out, "No runs") {
		t.Error(out)
	}
}

func TestVerifyRecoverCompact(t *testing.T) {
	dir := t.TempDir()
	file, root := filepath.Join(dir, "long.edn"), filepath.Join(dir, "store")
	var text strings.Builder
	for i := range 50000 {
		fmt.Fprintf(&text, "{:type :invoke, :process %d, :f :write, :value \"value %d\", :time %d, :index %d}\n", i, i*7919, i*1000, i)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	command(t, 0, "import", file, "--store", root)
	if out := command(t, 0, "compact", "long", "--store", root); !strings.Contains(out, "bytes became") {
		t.Error(out)
	}
	if out := command(t, 0, "verify", "long", "--store", root); !strings.Contains(out, "intact") {
		t.Error(out)
	}
	if out := command(t, 0, "export", "long", "--store", root); out != text.String() {
		t.Error("compacting changed the history")
	}
	path := filepath.Join(root, "latest", store.HistoryFile)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if out := command(t, exitInvalid, "verify", "long", "--store", root); !strings.Contains(out, "jepsentest recover") {
		t.Error(out)
	}
	good := filepath.Join(dir, "good.jt")
	if out := command(t, 0, "recover", "long", good, "--store", root); !strings.Contains(out, "intact chunks written to "+good) {
		t.Error(out)
	}
	command(t, 0, "verify", good)
	n := strings.Count(command(t, 0, "export", good), "\n")
	if n == 0 || n >= 50000 {
		t.Errorf("%d operations were recovered", n)
	}
}

func TestHostileFilesAndTargets(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "store")
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	command(t, 0, "import", write("good.edn", sample), "--store", root)

	// An import that fails changes nothing.
	command(t, exitInternal, "import", write("bad.edn", "{:type"), "--store", root)
	if out := command(t, exitInternal, "import", write("empty.edn", ""), "--store", root); !strings.Contains(out, "no operations") {
		t.Error(out)
	}
	if out := command(t, 0, "export", "latest", "--store", root); out != sample {
		t.Errorf("after imports that failed, latest is\n%s", out)
	}
	if entries, _ := os.ReadDir(root); len(entries) != 2 { // good, latest
		t.Errorf("left behind: %v", entries)
	}

	// Exporting a history onto itself is refused.
	history := filepath.Join(root, "latest", store.HistoryFile)
	if out := command(t, exitUsage, "export", "latest", "--store", root, "-o", history); !strings.Contains(out, "the history itself") {
		t.Error(out)
	}
	command(t, 0, "verify", history)

	// Nothing is recovered from what is no history, and no file appears.
	for _, text := range []string{"", "random bytes", strings.Repeat("\x00", 20000)} {
		to := filepath.Join(dir, "recovered.jt")
		if out := command(t, exitInvalid, "recover", write("garbage", text), to); !strings.Contains(out, "nothing of a history is left") {
			t.Error(out)
		}
		if _, err := os.Stat(to); err == nil {
			t.Error("a file appeared")
		}
	}

	// A history that was cut short is shown, and said to be.
	b, err := os.ReadFile(history)
	if err != nil {
		t.Fatal(err)
	}
	cut := write("cut.jt", string(b[:len(b)-8]))
	if out := command(t, 0, "show", cut); !strings.Contains(out, "is damaged") && !strings.Contains(out, "has no end") {
		t.Errorf("nothing is said of the damage:\n%s", out)
	}

	// What could move a terminal's cursor is not shown.
	command(t, 0, "import", write("evil.edn", `{:type :ok, :process 0, :f "a\u001b[2J", :value "\u001b[31m"}`), "--store", root)
	if out := command(t, 0, "show", "evil", "--store", root); strings.Contains(out, "\x1b") {
		t.Errorf("%q", out)
	}
}

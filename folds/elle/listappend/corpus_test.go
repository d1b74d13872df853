package listappend_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jepsentest/go/folds/elle/listappend"
	"github.com/jepsentest/go/histories/edn"
)

// TestAgreesWithElle compares the anomalies that need no cycles with those that
// Elle found in the histories of the corpus. G-single-item-realtime is left
// out: Elle names the most severe cycles only, and this package finds one
// special form of it.
func TestAgreesWithElle(t *testing.T) {
	dir := os.Getenv("JEPSEN_CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "corpus")
	}
	f, err := os.Open(filepath.Join(dir, "elle", "verdicts.jsonl"))
	if err != nil {
		t.Skipf("no corpus of histories: %v", err)
	}
	defer f.Close()
	types := slices.DeleteFunc(slices.Clone(listappend.Anomalies), func(t string) bool { return t == "G-single-item-realtime" })
	files := 0
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v struct {
			File, Workload, Model string
			Valid                 any
			AnomalyTypes          []string `json:"anomaly_types"`
		}
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		if v.Workload != "list-append" || v.Model != "strict-serializable" || v.Valid == "unknown" {
			continue
		}
		files++
		text, err := os.Open(filepath.Join(dir, "elle", v.File))
		if err != nil {
			t.Fatal(err)
		}
		h, err := edn.ReadHistory(text)
		text.Close()
		if err != nil {
			t.Fatalf("%s: %v", v.File, err)
		}
		rep, err := listappend.Checker().Check(context.Background(), h)
		if err != nil {
			t.Fatalf("%s: %v", v.File, err)
		}
		if n := rep.Counts["G-single-item-realtime"]; n > 0 && v.Valid == true {
			t.Errorf("%s: %d stale reads in a history that is strictly serializable", v.File, n)
		}
		for _, typ := range types {
			if got, want := rep.Counts[typ] > 0, slices.Contains(v.AnomalyTypes, typ); got != want {
				t.Errorf("%s: %s: got %v, want %v (%s)", v.File, typ, got, want, rep.Summary)
			}
		}
	}
	if files == 0 || lines.Err() != nil {
		t.Errorf("%d files, %v", files, lines.Err())
	}
	t.Logf("%d files", files)
}

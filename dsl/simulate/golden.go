package simulate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jepsentest/go/histories"
)

// Format renders a history one operation per line: time in nanoseconds,
// process, what happens, f and value. It serves as golden output.
func Format(history []histories.Op) string {
	var out []byte
	for _, op := range history {
		what := op.Type.String()
		if op.Phase != histories.NoPhase {
			what = op.Phase.String()
		}
		out = fmt.Appendf(out, "%d %v %s %s %v\n", op.Time.Nanoseconds(), op.Process, what, op.F, op.Value)
	}
	return string(out)
}

// TB is the part of testing.TB that [Golden] uses.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// RewriteVariable is the environment variable that makes [Golden] write.
const RewriteVariable = "JEPSEN_REWRITE"

// Golden fails the test unless the history, as [Format] renders it, is what the
// file holds. With JEPSEN_REWRITE=1 in the environment it writes the file
// instead: look at the difference before you keep it.
func Golden(t TB, file string, history []histories.Op) {
	t.Helper()
	got := Format(history)
	if os.Getenv(RewriteVariable) == "1" {
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = os.WriteFile(file, []byte(got), 0o644)
		}
		if err != nil {
			t.Fatalf("write golden history: %v", err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("read golden history: %v (%s=1 writes it)", err, RewriteVariable)
		return
	}
	if got != string(want) {
		t.Fatalf("the history is not the one in %s: %s", file, difference(got, string(want)))
	}
}

// difference describes the first line in which two histories differ.
func difference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := 0; i < len(g) || i < len(w); i++ {
		line := func(lines []string) string {
			if i < len(lines) {
				return lines[i]
			}
			return "(nothing)"
		}
		if line(g) != line(w) {
			return fmt.Sprintf("line %d is\n\t%s\nand not\n\t%s", i+1, line(g), line(w))
		}
	}
	return "they are equal"
}

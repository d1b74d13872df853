// Package readme holds the Go code that the README shows, so that it is
// compiled and run, and checks that the README shows nothing else.
package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var block = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Every Go block of the README is part of a file in this folder, and every
// command in it is run by .ci/run.
func TestREADMEIsTrue(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, f := range files {
		code.WriteString(read(t, f))
	}
	ci := read(t, filepath.Join(root, ".ci", "run"))
	blocks := block.FindAllStringSubmatch(read(t, filepath.Join(root, "README.md")), -1)
	kinds := map[string]int{}
	for _, b := range blocks {
		kinds[b[1]]++
		switch b[1] {
		case "go":
			if !strings.Contains(code.String(), strings.TrimSpace(b[2])) {
				t.Errorf("no file in this folder contains this block:\n%s", b[2])
			}
		case "sh":
			for _, line := range strings.Split(strings.TrimSpace(b[2]), "\n") {
				command, _, _ := strings.Cut(line, " #")
				if command = strings.TrimSpace(command); command != "" && !strings.Contains(ci, "run "+command+"\n") {
					t.Errorf(".ci/run does not run %q", command)
				}
			}
		}
	}
	if kinds["go"] < 2 || kinds["sh"] < 1 {
		t.Errorf("found blocks: %v", kinds)
	}
}

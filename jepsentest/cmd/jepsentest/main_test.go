package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestExitCodesAndOutput(t *testing.T) {
	for _, c := range []struct {
		args   string
		code   int
		stdout []string
		stderr []string
	}{
		{"demo --time-limit 1s --seed 5", exitValid, []string{"bug: lost-update", "list-append: invalid", "lost-update: both of these", "stored: ", "again:  go run ./jepsentest/cmd/jepsentest demo --bug lost-update --seed 5"}, nil},
		{"demo --bug aborted-read --time-limit 1s", exitValid, []string{"G1a: "}, nil},
		{"demo --bug none --time-limit 1s", exitValid, []string{"list-append: valid"}, nil},
		{"demo --bug gremlins", exitUsage, nil, []string{"--bug must be one of", "jepsentest --help"}},
		{"demo --time-limit=-1s", exitUsage, nil, []string{"greater than zero"}},
		{"frobnicate", exitUsage, nil, []string{"unexpected argument frobnicate"}},
		{"--help", exitValid, []string{"demo"}, nil},
		{"", exitValid, []string{"demo"}, nil},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(c.args)
			if len(args) > 0 && args[0] == "demo" {
				args = append(args, "--store", t.TempDir())
			}
			var stdout, stderr bytes.Buffer
			if code := run(args, &stdout, &stderr); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.stdout {
				if !strings.Contains(stdout.String(), want) {
					t.Errorf("%q is missing in\n%s", want, stdout.String())
				}
			}
			for _, want := range c.stderr {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("%q is missing in\n%s", want, stderr.String())
				}
			}
		})
	}
}

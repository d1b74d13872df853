package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// goCommand runs the go command in dir ("": here) and returns what it prints, trimmed. Its
// error carries what the command said.
func goCommand(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// A user's flags and workspace are about the user's module. (An empty GOFLAGS would
	// give way to the one in "go env -w".)
	cmd.Env = append(append(os.Environ(), "GOFLAGS=-buildvcs=false", "GOWORK=off"), env...)
	// Let it end its own children before it is killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("the go command is not on the path; install Go, or run where the image exists already (%w)", err)
	case ctx.Err() != nil:
		return "", fmt.Errorf("go %s: %w", args[0], ctx.Err())
	case err != nil:
		return "", fmt.Errorf("go %s: %s (%w)", args[0], complaint(stderr.String()), err)
	}
	return strings.TrimSpace(stdout.String()), nil
}

// complaint is what the go command has to say, without its reports of progress, in one line if
// it is short.
func complaint(stderr string) string {
	var lines []string
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "go: downloading ") || strings.HasPrefix(line, "go: creating ") ||
			strings.HasPrefix(line, "go: added ") || strings.HasPrefix(line, "go: upgraded ") {
			continue
		}
		lines = append(lines, strings.TrimPrefix(line, "go: "))
	}
	if len(lines) > 5 {
		return strings.Join(lines, "\n\t")
	}
	return strings.Join(lines, "; ")
}

// goBuild builds a static program from pkg in the module at dir. The file appears whole or not
// at all.
func goBuild(ctx context.Context, dir, mod, goos, goarch, pkg, file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(file), "building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, "program")
	env := []string{"CGO_ENABLED=0", "GOOS=" + goos, "GOARCH=" + goarch}
	if _, err := goCommand(ctx, dir, env, "build", "-mod="+mod, "-trimpath", "-ldflags=-s -w", "-o", out, pkg); err != nil {
		return err
	}
	return os.Rename(out, file)
}

// requirement returns the version of module that the go.mod in dir requires, "" if it does not.
// Where there is no go.mod the error is fs.ErrNotExist.
func requirement(ctx context.Context, dir, module string) (string, error) {
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s is not the directory of a module: %w", dir, err)
		}
		return "", err
	}
	out, err := goCommand(ctx, dir, nil, "mod", "edit", "-json")
	if err != nil {
		return "", err
	}
	var mod struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal([]byte(out), &mod); err != nil {
		return "", fmt.Errorf("go mod edit -json: %w", err)
	}
	for _, r := range mod.Require {
		if r.Path == module {
			return r.Version, nil
		}
	}
	return "", nil
}

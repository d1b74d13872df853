package cluster

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// GoBinarySpec says which Go program to build into an image.
type GoBinarySpec struct {
	_ struct{}

	// Name of the program, of its file (/usr/local/bin/Name, on the path) and of the image
	// (jepsentest/Name). Lower-case letters, digits, hyphens.
	Name string
	// Module is the path of the module that the program comes from:
	// "go.etcd.io/etcd/server/v3". Empty: the program is Dir's own, a database in
	// development; it is built anew each time, as fast as the go command's cache allows.
	Module string
	// Version of Module, exact: "v3.6.12". Empty: the one that Dir requires.
	Version string
	// Main is the source of a main package over Module. It is built in a module made for
	// the purpose, whose other dependencies the go command chooses and whose checksums it
	// verifies in its usual way. It may be empty where Dir serves.
	Main string
	// Dir is a directory with a main package and a go.mod and go.sum of its own, relative
	// to the working directory (of a test: its package). Where its go.mod requires Module
	// in just this Version it is what is built, with exactly the dependencies it records;
	// otherwise, and where it does not exist, Main is.
	Dir string
}

// GoBinary is an image built on this machine out of Go modules: one static program for the
// engine's architecture on an otherwise empty file system (with /tmp and /data). It needs the go
// command and a module proxy the first time, and neither a registry nor a base image.
//
// The program is kept in the user's cache directory and the image on the engine, both under a
// name that depends on everything that they are made of, so each is made once.
func GoBinary(spec GoBinarySpec) Image { return goBinary{spec} }

type goBinary struct{ spec GoBinarySpec }

// recipe changes when the way in which programs and images are made does.
const recipe = "1"

var binaryName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func (b goBinary) String() string {
	if b.spec.Version == "" {
		return b.spec.Name + " built from Go modules"
	}
	return b.spec.Name + " " + b.spec.Version + " built from Go modules"
}

func (b goBinary) validate() error {
	s := b.spec
	switch {
	case !binaryName.MatchString(s.Name):
		return fmt.Errorf("GoBinary name %q is not made of lower-case letters, digits and hyphens", s.Name)
	case s.Module == "" && (s.Dir == "" || s.Version != "" || s.Main != ""):
		return fmt.Errorf("GoBinary %s names no Module; without one there is a Dir and neither Version nor Main", s.Name)
	case s.Version == "" && s.Dir == "":
		return fmt.Errorf("GoBinary %s has neither a Version nor a Dir to take it from", s.Name)
	case s.Main == "" && s.Dir == "":
		return fmt.Errorf("GoBinary %s has neither a Main nor a Dir to build", s.Name)
	}
	return nil
}

func (b goBinary) resolve(ctx context.Context, e *engine, log func(string, ...any)) (string, error) {
	build := b.build
	if b.spec.Module == "" {
		build = b.buildLocal
	}
	built, err := build(ctx, "linux", e.arch, log)
	if err != nil {
		return "", err
	}
	ref := fmt.Sprintf("jepsentest/%s:%s-%s", b.spec.Name, tagOf(built.version), built.hash)
	has, err := e.hasImage(ctx, ref)
	if err != nil {
		return "", err
	}
	if !has {
		err := e.importBinary(ctx, ref, built.file, "/usr/local/bin/"+b.spec.Name,
			"CMD ["+quote(b.spec.Name)+"]", "LABEL "+labelImage+"="+quote(built.origin))
		if err != nil {
			return "", err
		}
	}
	log("image: using %s %s, built here as %s", b.spec.Name, built.version, ref)
	return ref, nil
}

// program is a program in the cache.
type program struct {
	file    string // path
	version string // of the module, or localVersion
	hash    string // of all that it is made of
	origin  string // module and version, or directory
}

// build makes the program for a platform, or finds it in the cache.
func (b goBinary) build(ctx context.Context, goos, goarch string, log func(string, ...any)) (program, error) {
	src, err := b.source(ctx)
	if err != nil {
		return program{}, err
	}
	goVersion, err := goCommand(ctx, src.dir, nil, "env", "GOVERSION")
	if err != nil {
		return program{}, err
	}
	p := program{version: src.version, origin: b.spec.Module + "@" + src.version}
	p.hash = hashOf(append([]string{recipe, b.spec.Name, b.spec.Module, src.version, goVersion, goos, goarch}, src.content...)...)
	p.file = filepath.Join(cacheDir(), "bin", fmt.Sprintf("%s-%s-%s", b.spec.Name, tagOf(src.version), p.hash))
	if _, err := os.Stat(p.file); err == nil {
		return p, nil
	}
	log("image: building %s %s from source; about a minute the first time", b.spec.Name, src.version)
	if src.dir == "" {
		dir, err := b.generate(ctx, src.version)
		if err != nil {
			return program{}, err
		}
		defer os.RemoveAll(dir)
		src.dir = dir
	}
	if err := goBuild(ctx, src.dir, src.mod, goos, goarch, ".", p.file); err != nil {
		return program{}, fmt.Errorf("build %s %s: %w", b.spec.Module, src.version, err)
	}
	return p, nil
}

// localVersion stands for the version of a program in development.
const localVersion = "local"

// localAge is how long programs in development stay in the cache.
const localAge = 24 * time.Hour

// buildLocal makes the program of Dir's own module. What it is made of is for the go command to
// know, so it is always asked, and the result is named after its own content.
func (b goBinary) buildLocal(ctx context.Context, goos, goarch string, _ func(string, ...any)) (program, error) {
	bin := filepath.Join(cacheDir(), "bin")
	fresh := filepath.Join(bin, fmt.Sprintf("%s-%s-new-%d-%s", b.spec.Name, localVersion, os.Getpid(), rand.Text()))
	if err := goBuild(ctx, b.spec.Dir, "readonly", goos, goarch, ".", fresh); err != nil {
		return program{}, fmt.Errorf("build %s: %w", b.spec.Dir, err)
	}
	content, err := os.ReadFile(fresh)
	if err != nil {
		return program{}, err
	}
	p := program{version: localVersion, origin: b.spec.Dir, hash: hashOf(recipe, b.spec.Name, string(content))}
	p.file = filepath.Join(bin, fmt.Sprintf("%s-%s-%s", b.spec.Name, localVersion, p.hash))
	if err := os.Rename(fresh, p.file); err != nil {
		return program{}, err
	}
	removeOld(filepath.Join(bin, b.spec.Name+"-"+localVersion+"-*"), localAge)
	return p, nil
}

// removeOld removes files that were made longer than age ago. What cannot be removed is tried
// again the next time.
func removeOld(pattern string, age time.Duration) {
	files, _ := filepath.Glob(pattern)
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && time.Since(info.ModTime()) > age {
			_ = os.Remove(f)
		}
	}
}

// source is what a program is built from.
type source struct {
	version string
	dir     string   // "": to be generated
	mod     string   // the go command's -mod
	content []string // what identifies it, beside the module's version
}

// source decides between Dir and Main.
func (b goBinary) source(ctx context.Context) (source, error) {
	s := b.spec
	if s.Dir != "" {
		required, err := requirement(ctx, s.Dir, s.Module)
		switch {
		case errors.Is(err, fs.ErrNotExist) && s.Version != "" && s.Main != "":
		case err != nil:
			return source{}, err
		case required == "":
			return source{}, fmt.Errorf("%s/go.mod does not require %s", s.Dir, s.Module)
		case s.Version == "" || s.Version == required:
			content, err := readSources(s.Dir)
			return source{version: required, dir: s.Dir, mod: "readonly", content: content}, err
		}
	}
	if s.Main == "" {
		return source{}, fmt.Errorf("%s does not require %s %s, and there is no Main to build it with", s.Dir, s.Module, s.Version)
	}
	return source{version: s.Version, mod: "mod", content: []string{s.Main}}, nil
}

// generate makes a module over the version asked for. The caller removes the directory.
func (b goBinary) generate(ctx context.Context, version string) (dir string, err error) {
	dir, err = os.MkdirTemp("", "jepsentest-"+b.spec.Name+"-")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	files := map[string]string{"go.mod": "module jepsentest.invalid/" + b.spec.Name + "\n", "main.go": b.spec.Main}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	if _, err := goCommand(ctx, dir, nil, "get", b.spec.Module+"@"+version); err != nil {
		return "", fmt.Errorf("there is no %s at version %s to be had: %w", b.spec.Module, version, err)
	}
	return dir, nil
}

// readSources returns the content of everything in dir that a build reads.
func readSources(dir string) ([]string, error) {
	var content []string
	for _, pattern := range []string{"go.mod", "go.sum", "*.go"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern)) // sorted
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			b, err := os.ReadFile(f)
			if err != nil {
				return nil, err
			}
			content = append(content, filepath.Base(f), string(b))
		}
	}
	return content, nil
}

// hashOf identifies a list of strings in 12 hexadecimal digits. Lengths go in, so that
// ("ab", "c") differs from ("a", "bc").
func hashOf(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		_, _ = io.WriteString(h, p)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

var notInTag = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// tagOf is a version in the form that image tags and file names may have.
func tagOf(version string) string {
	return strings.TrimLeft(notInTag.ReplaceAllString(version, "-"), ".-")
}

func quote(s string) string { return fmt.Sprintf("%q", s) }

// cacheDir is where programs are kept.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir() // no home directory
	}
	return filepath.Join(dir, "jepsentest")
}

package cluster

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	modulePath    = "github.com/jepsentest/go"
	holderPackage = "./jepsentest/cluster/cmd/holder"
)

// holderSources name the holder's image. They are embedded, so that where the image exists
// nothing else is needed, not even the go command.
//
//go:embed holder/*.go cmd/holder/*.go
var holderSources embed.FS

// holderHash identifies the holder for an architecture.
func holderHash(arch string) (string, error) {
	parts := []string{recipe, runtime.Version(), arch}
	err := fs.WalkDir(holderSources, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := holderSources.ReadFile(path)
		parts = append(parts, path, string(b))
		return err
	})
	return hashOf(parts...), err
}

// resolveHolder makes the holder's image available and returns its name.
//
// The holder is built in the directory of its own module, also where that is a dependency of
// the user's: so its dependencies are those its own go.mod and go.sum say, and the user's need
// not mention them.
func resolveHolder(ctx context.Context, e *engine, log func(string, ...any)) (string, error) {
	hash, err := holderHash(e.arch)
	if err != nil {
		return "", err
	}
	ref := "jepsentest/holder:" + hash
	if has, err := e.hasImage(ctx, ref); err != nil || has {
		return ref, err
	}
	log("image: building the holder, once for this version of the framework")
	dir, err := goCommand(ctx, "", nil, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", modulePath)
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", modulePath, err)
	}
	if dir == "" {
		return "", fmt.Errorf("find module %s: it is not downloaded; run go mod download %s", modulePath, modulePath)
	}
	tmp, err := os.MkdirTemp("", "jepsentest-holder-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	file := filepath.Join(tmp, "holder")
	if err := goBuild(ctx, dir, "readonly", "linux", e.arch, holderPackage, file); err != nil {
		return "", fmt.Errorf("build: %w", err)
	}
	return ref, e.importBinary(ctx, ref, file, "/holder", `ENTRYPOINT ["/holder"]`, "LABEL "+labelImage+`="holder"`)
}

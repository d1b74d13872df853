package cluster

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// importBinary makes an image whose file system is one program at an absolute path, an empty
// /data and /tmp.
func (e *engine) importBinary(ctx context.Context, ref, file, at string, changes ...string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeRootfs(w, f, at)) }()
	// Closing the reader ends the goroutine if the engine has not read to the end.
	defer r.Close()
	return e.importImage(ctx, ref, r, changes...)
}

// writeRootfs writes the file system as a tar archive. It contains no times, so that equal
// programs give equal archives.
func writeRootfs(w io.Writer, program *os.File, at string) error {
	info, err := program.Stat()
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	dir := func(name string, mode int64) error {
		return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode})
	}
	if err := dir("data", 0o777); err != nil {
		return err
	}
	if err := dir("tmp", 0o1777); err != nil {
		return err
	}
	at = strings.TrimPrefix(path.Clean(at), "/")
	for i, c := range at {
		if c == '/' {
			if err := dir(at[:i], 0o755); err != nil {
				return err
			}
		}
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: at, Mode: 0o755, Size: info.Size()}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	if _, err := io.Copy(tw, program); err != nil {
		return fmt.Errorf("read %s: %w", program.Name(), err)
	}
	return tw.Close()
}

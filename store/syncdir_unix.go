//go:build unix

package store

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// syncDir makes the names in a directory durable: a new file whose name is
// lost in a crash is lost itself.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some file systems cannot, and say so; they need no help then.
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

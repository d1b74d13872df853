//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the exclusive lock that writers hold on a file, until it is
// closed or the process ends. It does not hinder readers. It belongs to the
// open file, so it also keeps apart two writers of one process.
func lock(f *os.File) error {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return ErrLocked
		default:
			return err
		}
	}
}

package store

import (
	"os"

	"golang.org/x/sys/windows"
)

// lock takes the exclusive lock that writers hold on a file, until it is
// closed or the process ends. Locks keep others from reading on this system,
// so it covers one byte far beyond the end of any file.
func lock(f *os.File) error {
	at := windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	if err == windows.ERROR_LOCK_VIOLATION || err == windows.ERROR_IO_PENDING {
		return ErrLocked
	}
	return err
}

//go:build !linux

package store

// systemMemory returns 0: this system does not say.
func systemMemory() int64 { return 0 }

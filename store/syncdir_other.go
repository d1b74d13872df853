//go:build !unix

package store

// syncDir does nothing: directories cannot be synced here.
func syncDir(string) error { return nil }

package folds

import (
	"time"

	"github.com/jepsentest/go/histories"
)

// SetPatience says how long folds over h wait for one that is in a call.
func SetPatience(h histories.History, d time.Duration) {
	f := For(h)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.patience = d
}

// Depth and Window are what bounds a fold's memory.
func Depth(h histories.History) int  { return For(h).depthFor() }
func Window(h histories.History) int { return For(h).windowFor() }

func (f *Folder) depthFor() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.depth()
}

func (f *Folder) windowFor() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.window()
}

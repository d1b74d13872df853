package folds

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// Trace writes what the workers of the folder do from now on, until stop is
// called, to w: in the trace format of Chrome, which chrome://tracing and
// ui.perfetto.dev show. Every reading of a chunk, every reduction and every
// merge is an event, with the chunk's number; a row of the picture is a worker.
//
// stop returns the first error of writing to w. A second Trace takes the place
// of the first, whose stop still has to be called.
func (f *Folder) Trace(w io.Writer) (stop func() error) {
	t := &tracer{w: bufio.NewWriter(w), start: f.clock()}
	t.print("[")
	f.tracer.Store(t)
	return func() error {
		f.tracer.CompareAndSwap(t, nil)
		return t.close()
	}
}

type tracer struct {
	start time.Duration // by the folder's clock

	mu     sync.Mutex
	w      *bufio.Writer // remembers its first error
	events int
	closed bool
}

func (t *tracer) print(s string) { _, _ = t.w.WriteString(s) }

func (t *tracer) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		t.print("\n]\n")
	}
	if err := t.w.Flush(); err != nil {
		return fmt.Errorf("write trace of folds: %w", err)
	}
	return nil
}

// traceEvent is a complete event ("X") of the format; times are in microseconds.
type traceEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat"`
	Phase    string         `json:"ph"`
	Start    float64        `json:"ts"`
	Duration float64        `json:"dur"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Args     map[string]int `json:"args"`
}

// traced notes that a worker did something.
func (f *Folder) traced(lane int, what, fold string, chunk int, start, end time.Duration) {
	t := f.tracer.Load()
	if t == nil {
		return
	}
	name := what
	if fold != "" {
		name += " " + fold
	}
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	event, err := json.Marshal(traceEvent{name, what, "X", micros(start - t.start), micros(end - start), 1, lane + 1,
		map[string]int{"chunk": chunk}})
	if err != nil {
		panic(fmt.Sprintf("folds: a trace event has numbers and strings only, and yet: %v", err))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	if t.events > 0 {
		t.print(",")
	}
	t.events++
	t.print("\n")
	_, _ = t.w.Write(event)
}

// lanes are the numbers of the workers: small, and reused, so that a trace has
// as many rows as there were workers at once.
type lanes []bool

func (l *lanes) take() int {
	for i, used := range *l {
		if !used {
			(*l)[i] = true
			return i
		}
	}
	*l = append(*l, true)
	return len(*l) - 1
}

func (l *lanes) give(i int) { (*l)[i] = false }

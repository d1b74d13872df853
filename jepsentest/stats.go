package jepsentest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jepsentest/go/histories"
)

// counters are what a person wants to know while the test runs. The scheduler
// writes them, anybody may read them.
type counters struct {
	start       time.Time
	invocations atomic.Int64
	completions [histories.NumTypes]atomic.Int64
	fault       atomic.Pointer[string] // what a nemesis did last
	phase       atomic.Pointer[string]
}

func (c *counters) setPhase(p string) { c.phase.Store(&p) }

func (c *counters) invoked(op *histories.Op) {
	if op.Process.IsClient() {
		c.invocations.Add(1)
	}
}

func (c *counters) completed(op *histories.Op) {
	if op.Process.IsClient() {
		c.completions[op.Type].Add(1)
		return
	}
	f := op.F
	c.fault.Store(&f)
}

// Counts are the numbers of client operations of a run.
type Counts struct {
	Invoked int64 // operations begun
	OK      int64
	Failed  int64
	Unknown int64 // ended in Info
}

func (c Counts) String() string {
	return fmt.Sprintf("%d invoked, %d ok, %d fail, %d info", c.Invoked, c.OK, c.Failed, c.Unknown)
}

func (c *counters) counts() Counts {
	return Counts{
		Invoked: c.invocations.Load(),
		OK:      c.completions[histories.OK].Load(),
		Failed:  c.completions[histories.Fail].Load(),
		Unknown: c.completions[histories.Info].Load(),
	}
}

// line renders the counters for a progress report.
func (c *counters) line() string {
	n := c.counts()
	elapsed := time.Since(c.start)
	var b strings.Builder
	if p := c.phase.Load(); p != nil {
		b.WriteString(*p + ", ")
	}
	fmt.Fprintf(&b, "%.0f s: %d ops (%.0f/s), %d ok, %d fail, %d info",
		elapsed.Seconds(), n.Invoked, float64(n.Invoked)/max(elapsed.Seconds(), 0.001), n.OK, n.Failed, n.Unknown)
	if f := c.fault.Load(); f != nil {
		b.WriteString(", nemesis: " + *f)
	}
	return b.String()
}

package jepsentest

import (
	"flag"
	"fmt"
	"time"
)

// go test kills the process when its -timeout (10 minutes unless given) is over:
// nothing is healed, saved or removed. So runs end before.

// processStart is when the time of go test began to count, closely enough.
var processStart = time.Now()

// testDeadline returns when go test will kill the process, and false if it will not.
func testDeadline() (time.Time, bool) {
	f := flag.Lookup("test.timeout")
	if f == nil {
		return time.Time{}, false
	}
	g, ok := f.Value.(flag.Getter)
	if !ok {
		return time.Time{}, false
	}
	d, ok := g.Get().(time.Duration)
	if !ok || d <= 0 {
		return time.Time{}, false
	}
	return processStart.Add(d), true
}

// reserveFor returns how much of a time limit is kept for healing, saving and
// cleaning up.
func reserveFor(limit time.Duration) time.Duration { return min(45*time.Second, limit/3) }

// safeEnd returns when a run must stop doing new things so that it can heal,
// save and clean up before go test kills the process.
func safeEnd() (time.Time, bool) {
	end, ok := testDeadline()
	if !ok {
		return time.Time{}, false
	}
	return end.Add(-reserveFor(end.Sub(processStart))), true
}

// A budget divides the time until the limit of go test among the specs that are
// still to run.
type budget struct {
	end       time.Time // when the last spec must be done; zero: no limit
	specsLeft int       // including the one that asks
}

// fit returns for how long a spec may run its main phase that would like to run
// it for want and needs overhead besides. The error says that there is too
// little time, and what to do.
func (b budget) fit(now time.Time, want, overhead time.Duration) (time.Duration, error) {
	if b.end.IsZero() {
		return want, nil
	}
	left := b.end.Sub(now)
	least := min(want, minimalPhase)
	if left < overhead+least {
		return 0, fmt.Errorf("only %v of the time limit of go test are left, and this spec needs %v at least: "+
			"give it more with -timeout, such as -timeout 3h", left.Round(time.Second), (overhead + least).Round(time.Second))
	}
	share := left/time.Duration(max(b.specsLeft, 1)) - overhead
	return min(want, max(share, least)), nil
}

// minimalPhase is the shortest main phase that is worth the setup of a cluster.
const minimalPhase = 10 * time.Second

// timeLeft returns d, but at most half of what is left until go test kills the
// process: what comes after needs some of it, too.
func timeLeft(d time.Duration) time.Duration {
	if end, ok := testDeadline(); ok {
		d = min(d, time.Until(end)/2)
	}
	return max(d, 0)
}

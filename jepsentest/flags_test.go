package jepsentest

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestOptionsFromFlagsAndEnvironment(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags map[string]string
		env   []string
		want  Options
	}{
		{"nothing", nil, []string{"PATH=/bin", "JEPSEN_CORPUS=/corpus"}, Options{}},
		{"flags", map[string]string{"time-limit": "30s", "concurrency": "2n", "rate": "0.5", "seed": "0x10", "nodes": "5", "store": "/tmp/s", "keep-nodes": "true", "fold-trace": "1"}, nil,
			Options{TimeLimit: 30 * time.Second, Concurrency: "2n", Rate: 0.5, Seed: 16, Nodes: 5, Store: "/tmp/s", KeepNodes: true, FoldTrace: true}},
		{"environment", nil, []string{"JEPSEN_TIME_LIMIT=1m", "JEPSEN_KEEP_NODES=1", "JEPSEN_CONCURRENCY=7"},
			Options{TimeLimit: time.Minute, KeepNodes: true, Concurrency: "7"}},
		{"a flag wins over its twin", map[string]string{"seed": "1"}, []string{"JEPSEN_SEED=2", "JEPSEN_NODES=3"}, Options{Seed: 1, Nodes: 3}},
	} {
		got, err := parseOptions(c.flags, c.env)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
}

func TestBadOptionsAreNamed(t *testing.T) {
	for env, want := range map[string]string{
		"JEPSEN_TIMELIMIT=1m":     "unknown variable JEPSEN_TIMELIMIT",
		"JEPSEN_TIME_LIMIT=soon":  "variable JEPSEN_TIME_LIMIT=soon",
		"JEPSEN_TIME_LIMIT=-1s":   "greater than zero",
		"JEPSEN_CONCURRENCY=n":    "2n",
		"JEPSEN_CONCURRENCY=0":    "2n",
		"JEPSEN_RATE=0":           "greater than zero",
		"JEPSEN_RATE=NaN":         "greater than zero",
		"JEPSEN_SEED=-1":          "JEPSEN_SEED=-1",
		"JEPSEN_NODES=0":          "at least one node",
		"JEPSEN_KEEP_NODES=maybe": "JEPSEN_KEEP_NODES=maybe",
	} {
		_, err := parseOptions(nil, []string{env})
		var c *ConfigError
		if !errors.As(err, &c) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", env, err)
		}
	}
	if _, err := parseOptions(map[string]string{"seed": "x"}, nil); err == nil || !strings.Contains(err.Error(), "-jepsen.seed=x") {
		t.Errorf("got %v", err)
	}
}

func TestThreads(t *testing.T) {
	for _, c := range []struct {
		option, def string
		want        int
	}{{"", "2n", 6}, {"", "10", 10}, {"4", "2n", 4}, {"3n", "1", 9}} {
		if got, err := (Options{Concurrency: c.option}).Threads(3, c.def); err != nil || got != c.want {
			t.Errorf("%+v: got %d, %v", c, got, err)
		}
	}
	if _, err := (Options{Concurrency: "99999999999"}).Threads(3, "1"); err == nil {
		t.Error("no error")
	}
}

func TestBudgetSharesTheTimeThatIsLeft(t *testing.T) {
	now := time.Now()
	const overhead = 40 * time.Second
	for _, c := range []struct {
		name  string
		left  time.Duration // 0: no limit
		specs int
		want  time.Duration
		got   time.Duration // 0: refused
	}{
		{"no limit", 0, 100, time.Minute, time.Minute},
		{"plenty", 3 * time.Hour, 5, time.Minute, time.Minute},
		{"shared", 450 * time.Second, 5, time.Minute, 50 * time.Second},
		{"too little for all, enough for some", 200 * time.Second, 10, time.Minute, 10 * time.Second},
		{"just enough", 50 * time.Second, 1, time.Minute, 10 * time.Second},
		{"too little", 49 * time.Second, 1, time.Minute, 0},
		{"a short one needs no more than it wants", 42 * time.Second, 1, 2 * time.Second, 2 * time.Second},
	} {
		b := budget{specsLeft: c.specs}
		if c.left > 0 {
			b.end = now.Add(c.left)
		}
		got, err := b.fit(now, c.want, overhead)
		if got != c.got || (err != nil) != (c.got == 0) || err != nil && !strings.Contains(err.Error(), "-timeout 3h") {
			t.Errorf("%s: got %v, %v, want %v", c.name, got, err, c.got)
		}
	}
}

// What fits all together: no spec makes a later one impossible.
func TestBudgetNeverRunsOver(t *testing.T) {
	for specs := 1; specs < 12; specs++ {
		for limit := time.Minute; limit < 20*time.Minute; limit += 37 * time.Second {
			start := time.Now()
			now := start
			for left := specs; left > 0; left-- {
				d, err := budget{end: start.Add(limit), specsLeft: left}.fit(now, time.Minute, 40*time.Second)
				if err == nil {
					now = now.Add(d + 40*time.Second)
				}
			}
			if now.After(start.Add(limit)) {
				t.Fatalf("%d specs take %v of %v", specs, now.Sub(start), limit)
			}
		}
	}
}

package jepsentest_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jepsentest/go/dsl"
	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/jepsentest"
	"github.com/jepsentest/go/jepsentest/sim"
	"github.com/jepsentest/go/jepsentest/workload"
)

const crashDir = "TEST_CRASH_DIR"

// TestCrashingProcess is not a test of its own: it is the process that
// TestKilledTestKeepsItsHistory kills. It notes every operation that it begins
// in a file, at once, and the framework records them in its own way.
func TestCrashingProcess(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		t.Skip("run by TestKilledTestKeepsItsHistory only")
	}
	witness, err := os.Create(filepath.Join(dir, "witness"))
	if err != nil {
		t.Fatal(err)
	}
	db := sim.NewLists(sim.ListOptions{Seed: 1})
	client := func(ctx context.Context, op *histories.Op) (histories.Value, error) {
		if _, err := fmt.Fprintf(witness, "%d %d %v\n", time.Now().UnixNano(), op.Index, op.Value); err != nil {
			return histories.Nil(), err
		}
		return db.Invoke(ctx, op)
	}
	_, err = jepsentest.Run(t.Context(), jepsentest.Test{
		Name: "crash", StoreDir: dir, Concurrency: 10, Client: jepsentest.ClientFunc(client),
		Generator: dsl.Clients(workload.Append(workload.AppendOptions{}).Generator),
	})
	t.Fatal("the run ended by itself", err)
}

// After kill -9 of the process of a test, everything that had happened until a
// second before is in its history, and nothing is that did not happen.
func TestKilledTestKeepsItsHistory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, after := range []time.Duration{300 * time.Millisecond, 1500 * time.Millisecond, 2700 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			killAndRead(t, after)
		})
	}
}

func killAndRead(t *testing.T, after time.Duration) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashingProcess$")
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	witness := filepath.Join(dir, "witness")
	for range 1000 { // until it works
		if info, err := os.Stat(witness); err == nil && info.Size() > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(after)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	_ = cmd.Wait() // it was killed

	runs, err := filepath.Glob(filepath.Join(dir, "crash", "2*"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("runs: %v, %v", runs, err)
	}
	rec, err := jepsentest.OpenRecording(runs[0])
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	ops, err := histories.Collect(rec.History)
	if err != nil {
		t.Fatal(err)
	}
	if err := histories.Check(rec.History.Source()); err != nil {
		t.Error(err)
	}
	f, err := os.Open(witness)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	begun := map[int64]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.SplitN(lines.Text(), " ", 3)
		at, err1 := strconv.ParseInt(fields[0], 10, 64)
		index, err2 := strconv.ParseInt(fields[1], 10, 64)
		if err1 != nil || err2 != nil {
			t.Fatal(lines.Text())
		}
		begun[index] = fields[2]
		// A second, and what a busy machine may add to it.
		if age := killed.Sub(time.Unix(0, at)); age > 1500*time.Millisecond && index >= int64(len(ops)) {
			t.Fatalf("operation %d, begun %v before the kill, is lost; the history ends at %d", index, age, len(ops))
		}
	}
	for i, op := range ops {
		if op.Index != int64(i) {
			t.Fatalf("entry %d has index %d", i, op.Index)
		}
		if op.Type == histories.Invoke && begun[op.Index] != op.Value.String() && begun[op.Index] != "" {
			t.Fatalf("operation %d was %s, but %v is recorded", op.Index, begun[op.Index], op.Value)
		}
	}
	t.Logf("%d operations begun, %d entries in the history", len(begun), len(ops))
	if after > 2*time.Second && len(ops) == 0 {
		t.Error("nothing was recorded")
	}
}

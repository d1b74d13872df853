//go:build unix

package store_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/store"
	"github.com/jepsentest/go/store/internal/listappend"
)

// The test binary serves as the process that is killed, and as the other
// process that writes while this one reads.
const childEnv = "STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if err := child(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	store.RemoveBenchFile()
	os.Exit(code)
}

// childSealAfter is short, so that a test sees several timed seals.
const childSealAfter = 200 * time.Millisecond

// child writes a history until it is killed, or has as many operations as
// STORE_TEST_OPS says. Now and then it says how many it has appended, when,
// and how many were sealed.
func child(path string) error {
	seed, _ := strconv.ParseUint(os.Getenv("STORE_TEST_SEED"), 10, 64)
	limit, _ := strconv.ParseInt(os.Getenv("STORE_TEST_OPS"), 10, 64)
	slow := os.Getenv("STORE_TEST_SLOW") != ""
	w, err := store.Create(path, store.Options{SealAfter: childSealAfter})
	if err != nil {
		return err
	}
	g := listappend.New(seed, 20)
	var op histories.Op
	say := func(i int64) { fmt.Println(i, time.Now().UnixNano(), w.Sealed()) }
	every := int64(2000)
	if slow {
		every = 20
	}
	for i := int64(0); limit == 0 || i < limit; i++ {
		if i%every == 0 {
			say(i)
			if slow {
				time.Sleep(10 * time.Millisecond)
			}
		}
		g.Next(&op)
		if err := w.Append(&op); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	say(limit)
	return nil
}

func startChild(t *testing.T, path string, seed uint64, ops int64, slow bool) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+path,
		fmt.Sprint("STORE_TEST_SEED=", seed), fmt.Sprint("STORE_TEST_OPS=", ops))
	if slow {
		cmd.Env = append(cmd.Env, "STORE_TEST_SLOW=1")
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// A process that is killed at any moment loses at most the open chunk or what
// it appended within the promised time, and invents nothing. STORE_TEST_KILLS
// sets how often it is tried.
func TestKill(t *testing.T) {
	kills := 24
	if n, err := strconv.Atoi(os.Getenv("STORE_TEST_KILLS")); err == nil {
		kills = n
	} else if testing.Short() || store.RaceEnabled {
		kills = 8
	}
	// A busy machine may not run the child for a while.
	const grace = 2 * time.Second
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	dir := t.TempDir()
	torn := 0
	for k := range kills {
		path := filepath.Join(dir, fmt.Sprint(k, ".jt"))
		slow := k%4 == 3
		cmd, lines := startChild(t, path, uint64(k), 0, slow)
		if !lines.Scan() { // it has begun to write
			t.Fatal("the child said nothing")
		}
		first := lines.Text()
		delay := time.Duration(r.Int64N(int64(400 * time.Millisecond)))
		if slow {
			delay *= 3
		}
		timer := time.AfterFunc(delay, func() { cmd.Process.Kill() })
		var appended, safe, sealed int64
		type report struct{ n, at, sealed int64 }
		var reports []report
		for text, ok := first, true; ok; ok = lines.Scan() {
			if len(reports) > 0 {
				text = lines.Text()
			}
			var rep report
			if n, _ := fmt.Sscan(text, &rep.n, &rep.at, &rep.sealed); n == 3 {
				reports = append(reports, rep)
			}
		}
		cmd.Wait()
		timer.Stop()
		killed := time.Now().UnixNano()
		for _, rep := range reports {
			appended, sealed = rep.n, rep.sealed
			if rep.at < killed-int64(childSealAfter+grace) {
				safe = rep.n
			}
		}
		f, err := store.Open(path, store.Options{Cache: store.NewCache(8 << 20)})
		if err != nil {
			t.Fatalf("kill %d after %v: %v", k, delay, err)
		}
		g := listappend.New(uint64(k), 20)
		var want histories.Op
		n := int64(0)
		for op, err := range f.History().All() {
			if err != nil {
				t.Fatalf("kill %d: %v", k, err)
			}
			g.Next(&want)
			if !op.Equal(want) {
				t.Fatalf("kill %d: operation %d:\n got %v\nwant %v", k, n, op, want)
			}
			n++
		}
		switch {
		case n < sealed:
			t.Fatalf("kill %d: %d operations, where %d were sealed", k, n, sealed)
		case n < safe && appended-n > histories.ChunkSize:
			t.Fatalf("kill %d: %d operations, where %d were older than the time promised", k, n, safe)
		case f.Complete():
			t.Fatalf("kill %d: the history says that it is complete", k)
		}
		if problems, err := store.Verify(path, store.Options{}, func(c *store.CorruptError) { t.Error(c) }); problems != 0 || err != nil {
			t.Fatal(problems, err)
		}
		if appended > n {
			torn++
		}
		f.Close()
		os.Remove(path)
	}
	t.Logf("%d kills, %d of them with operations under way", kills, torn)
}

// A reader in another process sees sealed chunks as they come, and no torn state.
func TestReadWhileWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.jt")
	const total = 200_000
	cmd, lines := startChild(t, path, 5, total, false)
	if !lines.Scan() {
		t.Fatal("the child said nothing")
	}
	done := make(chan error, 1)
	go func() {
		for lines.Scan() {
		}
		done <- cmd.Wait()
	}()
	f, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if second, err := store.OpenAppend(path, store.Options{}); err == nil {
		// Possible only if the child has finished already.
		second.Close()
		if err := f.Refresh(); err != nil || !f.Complete() {
			t.Fatal("a second writer was let in", err)
		}
	} else if !errors.Is(err, store.ErrLocked) {
		t.Fatalf("a second writer got %v", err)
	}
	g := listappend.New(5, 20)
	var want histories.Op
	read, views, chunk := int64(0), 0, 0
	for finished := false; ; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			finished = true
		default:
		}
		if err := f.Refresh(); err != nil {
			t.Fatal(err)
		}
		src := f.History().Source()
		if n := src.NumChunks(); n > chunk {
			views++
			for ; chunk < n; chunk++ {
				c, err := src.ReadChunk(chunk, histories.AllColumns)
				if err != nil {
					t.Fatal(err)
				}
				for i := range c.Len() {
					g.Next(&want)
					if op := c.Op(i); !op.Equal(want) {
						t.Fatalf("operation %d:\n got %v\nwant %v", read, op, want)
					}
					read++
				}
			}
		}
		if finished {
			break
		}
	}
	if read != total || !f.Complete() || f.Len() != total {
		t.Fatalf("%d operations of %d, complete: %v", read, total, f.Complete())
	}
	t.Logf("the file grew %d times while it was read", views)
}

func TestTwoWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.jt")
	w, err := store.Create(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Create(path, store.Options{}); !errors.Is(err, store.ErrLocked) {
		t.Fatalf("Create: %v", err)
	}
	if _, err := store.OpenAppend(path, store.Options{}); !errors.Is(err, store.ErrLocked) {
		t.Fatalf("OpenAppend: %v", err)
	}
	if _, _, err := store.Compact(path); !errors.Is(err, store.ErrLocked) {
		t.Fatalf("Compact: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Create(path, store.Options{}); !errors.Is(err, os.ErrExist) {
		t.Fatalf("Create over a history: %v", err)
	}
	again, err := store.OpenAppend(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Append(&histories.Op{}); !errors.Is(err, store.ErrReadOnlyHistory) {
		t.Fatalf("Append: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if err := again.SetMeta(histories.Nil()); !errors.Is(err, store.ErrClosed) {
		t.Fatalf("SetMeta: %v", err)
	}
}

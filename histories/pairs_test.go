package histories_test

import (
	"errors"
	"testing"

	"github.com/jepsentest/go/histories"
	"pgregory.net/rapid"
)

// The Pairer agrees with a map, for processes that collide in any small table.
func TestPairerAgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p histories.Pairer
		open := map[histories.Process]int64{}
		process := rapid.OneOf(rapid.Int64Range(-3, 40), rapid.Map(rapid.Int64Range(0, 40), func(n int64) int64 { return n * 64 }), rapid.Int64())
		for pos := range rapid.Int64Range(0, 300).Draw(t, "entries") {
			proc := histories.Process(process.Draw(t, "process"))
			begin := rapid.Bool().Draw(t, "begin")
			typ := histories.OK
			if begin {
				typ = histories.Invoke
			}
			want, isOpen := open[proc]
			inv, ok, err := p.Add(pos, proc, typ, histories.NoPhase)
			switch {
			case begin && isOpen:
				if !errors.Is(err, histories.ErrDoubleInvoke) || inv != want {
					t.Fatalf("got %d, %v", inv, err)
				}
			case begin:
				if err != nil || ok {
					t.Fatalf("got %v, %v", ok, err)
				}
			case isOpen:
				if !ok || inv != want || err != nil {
					t.Fatalf("got %d, %v, %v, want %d", inv, ok, err, want)
				}
			default:
				if !errors.Is(err, histories.ErrNotInvoked) {
					t.Fatalf("got %v", err)
				}
			}
			if begin {
				open[proc] = pos
			} else {
				delete(open, proc)
			}
			if p.Open() != len(open) {
				t.Fatalf("%d are open, want %d", p.Open(), len(open))
			}
		}
		p.EachOpen(func(proc histories.Process, pos int64) {
			if at, ok := open[proc]; !ok || at != pos {
				t.Fatalf("process %v is open at %d, want %d, %v", proc, pos, at, ok)
			}
			delete(open, proc)
		})
		if len(open) > 0 {
			t.Fatalf("not reported as open: %v", open)
		}
	})
}

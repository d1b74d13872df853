package listappend

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jepsentest/go/folds"
	"github.com/jepsentest/go/histories"
)

// finder looks for anomalies in what was collected.
type finder struct {
	*collected
	want []string
	rep  *folds.Report
}

func (f *finder) wants(typ string) bool { return slices.Contains(f.want, typ) }

// report notes an anomaly; explain is called only if there is room for it.
func (f *finder) report(typ string, ops []int64, explain func() string) {
	f.rep.Counts[typ]++
	if f.rep.Counts[typ] <= maxExamples {
		f.rep.Anomalies = append(f.rep.Anomalies, folds.Anomaly{Type: typ, Text: explain(), Ops: ops})
	}
}

func (f *finder) findAll() {
	for _, id := range f.names {
		k := f.keys[id]
		for _, r := range k.reads {
			f.aborted(k, r)
			f.intermediate(k, r)
			f.duplicates(k, r)
		}
		f.incompatible(k)
		f.lostUpdates(k)
		f.stale(k)
	}
	for i := range f.txns {
		f.internal(&f.txns[i])
	}
}

func (f *finder) describe(t *txn) string {
	return fmt.Sprintf("T%d (process %v) %v", t.completed, t.process, histories.Txn(t.mops...))
}

// aborted finds G1a: elements of failed transactions.
func (f *finder) aborted(k *keyData, r read) {
	if !f.wants("G1a") {
		return
	}
	for i := range r.list.Len() {
		e := r.list.At(i)
		w := k.write(e)
		if w == nil || w.outcome != histories.Fail {
			continue
		}
		t := &f.txns[r.txn]
		f.report("G1a", []int64{t.completed, w.completed}, func() string {
			return fmt.Sprintf("%s read element %v of key %v, which was appended by operation %d, which failed", f.describe(t), e, k.name, w.completed)
		})
		return
	}
}

// intermediate finds G1b: reads that end within another transaction's appends.
func (f *finder) intermediate(k *keyData, r read) {
	n := r.list.Len()
	if !f.wants("G1b") || n == 0 {
		return
	}
	e := r.list.At(n - 1)
	w := k.write(e)
	if w == nil || !w.notFinal || w.txn == r.txn {
		return
	}
	t := &f.txns[r.txn]
	f.report("G1b", []int64{t.completed, w.completed}, func() string {
		return fmt.Sprintf("%s read key %v up to element %v, but operation %d, which appended that, also appended %v to it",
			f.describe(t), k.name, e, w.completed, w.later)
	})
}

func (f *finder) duplicates(k *keyData, r read) {
	if !f.wants("duplicate-elements") {
		return
	}
	seen := make(map[string]bool, r.list.Len())
	for i := range r.list.Len() {
		e := string(r.list.At(i).AppendKey(nil))
		if seen[e] {
			t := &f.txns[r.txn]
			f.report("duplicate-elements", []int64{t.completed}, func() string {
				return fmt.Sprintf("%s read key %v as %v, which holds %v twice", f.describe(t), k.name, r.list, r.list.At(i))
			})
			return
		}
		seen[e] = true
	}
}

// incompatible finds reads of one key of which neither is a prefix of the other:
// no order of the appends explains both.
func (f *finder) incompatible(k *keyData) {
	if !f.wants("incompatible-order") {
		return
	}
	byLength := slices.Clone(k.reads)
	slices.SortStableFunc(byLength, func(a, b read) int { return a.list.Len() - b.list.Len() })
	for i := 1; i < len(byLength); i++ {
		a, b := byLength[i-1], byLength[i]
		if isPrefix(a.list, b.list) {
			continue
		}
		s, t := &f.txns[a.txn], &f.txns[b.txn]
		f.report("incompatible-order", []int64{s.completed, t.completed}, func() string {
			return fmt.Sprintf("%s read key %v as %v\n%s read it as %v\nneither list is a prefix of the other",
				f.describe(s), k.name, a.list, f.describe(t), b.list)
		})
		return // one conflict a key says it
	}
}

func isPrefix(a, b histories.Value) bool {
	if a.Len() > b.Len() {
		return false
	}
	for i := range a.Len() {
		if !a.At(i).Equal(b.At(i)) {
			return false
		}
	}
	return true
}

// lostUpdates finds committed transactions whose first reads of a key returned
// the same version, and which then appended to it.
func (f *finder) lostUpdates(k *keyData) {
	if !f.wants("lost-update") {
		return
	}
	byVersion := map[string][]int{}
	var versions []string
	for _, r := range k.reads {
		t := &f.txns[r.txn]
		if !firstRead(t.mops, r.mop) || !appendsAfter(t.mops, r.mop) {
			continue
		}
		v := string(r.list.AppendKey(nil))
		if r.list.Len() == 0 {
			v = "" // nil and the empty list are the same version
		}
		if byVersion[v] == nil {
			versions = append(versions, v)
		}
		byVersion[v] = append(byVersion[v], r.txn)
	}
	for _, v := range versions {
		txns := byVersion[v]
		if len(txns) < 2 {
			continue
		}
		s, t := &f.txns[txns[0]], &f.txns[txns[1]]
		f.report("lost-update", []int64{s.completed, t.completed}, func() string {
			return fmt.Sprintf("both of these transactions read the same version of key %v and then appended to it:\n%s\n%s",
				k.name, f.describe(s), f.describe(t))
		})
	}
}

// firstTouch reports whether micro-operation i is the first on its key.
func firstTouch(mops []histories.Mop, i int) bool {
	for j := range i {
		if mops[j].Key.Equal(mops[i].Key) {
			return false
		}
	}
	return true
}

// firstRead reports whether micro-operation i is the first read of its key.
func firstRead(mops []histories.Mop, i int) bool {
	for j := range i {
		if mops[j].Kind == histories.MopRead && mops[j].Key.Equal(mops[i].Key) {
			return false
		}
	}
	return true
}

func appendsAfter(mops []histories.Mop, i int) bool {
	for j := i + 1; j < len(mops); j++ {
		if mops[j].Kind == histories.MopAppend && mops[j].Key.Equal(mops[i].Key) {
			return true
		}
	}
	return false
}

// stale finds G-single-item-realtime in its simplest form. The longest read
// gives the order of the appends to a key, and those that no read shows come
// after it. A transaction that read n elements precedes whoever appended the
// next ones (it did not see them); if one of these had completed before the
// transaction began, real time says the opposite.
func (f *finder) stale(k *keyData) {
	if !f.wants("G-single-item-realtime") {
		return
	}
	n := k.longest.Len()
	// first[i] is the element, at position i or later, whose append was
	// acknowledged earliest; position n stands for those that were never seen.
	type ack struct {
		completed int64
		element   histories.Value
	}
	first := make([]ack, n+1)
	first[n] = ack{completed: math.MaxInt64}
	for i := range n {
		if w := k.write(k.longest.At(i)); w != nil {
			w.seen = true
		}
	}
	for _, e := range k.order {
		if w := k.writes[e]; w.outcome == histories.OK && !w.seen && w.completed < first[n].completed {
			first[n] = ack{w.completed, w.element}
		}
	}
	for i := n - 1; i >= 0; i-- {
		first[i] = first[i+1]
		e := k.longest.At(i)
		if w := k.write(e); w != nil && w.outcome == histories.OK && w.completed < first[i].completed {
			first[i] = ack{w.completed, e}
		}
	}
	for _, r := range k.reads {
		t := &f.txns[r.txn]
		if !firstTouch(t.mops, r.mop) || !isPrefix(r.list, k.longest) {
			continue
		}
		missed := first[r.list.Len()]
		if missed.completed >= t.invoked {
			continue
		}
		f.report("G-single-item-realtime", []int64{missed.completed, t.completed}, func() string {
			return fmt.Sprintf("%s read key %v as %v, without element %v; yet operation %d, which appended that, had completed before the read began (operation %d)",
				f.describe(t), k.name, r.list, missed.element, missed.completed, t.invoked)
		})
	}
}

// internal finds reads that contradict their own transaction: a read must show
// what the transaction read before, followed by what it appended since.
func (f *finder) internal(t *txn) {
	if !f.wants("internal") {
		return
	}
	type view struct {
		known  bool // whether a read has shown the whole list
		list   []histories.Value
		suffix []histories.Value // appended so far, when it has not
	}
	views := map[string]*view{}
	for i := range t.mops {
		m := &t.mops[i]
		id := string(m.Key.AppendKey(nil))
		v := views[id]
		if v == nil {
			v = &view{}
			views[id] = v
		}
		if m.Kind == histories.MopAppend {
			v.list, v.suffix = append(v.list, m.Value), append(v.suffix, m.Value)
			continue
		}
		got := make([]histories.Value, m.Value.Len())
		for j := range got {
			got[j] = m.Value.At(j)
		}
		ok := slices.EqualFunc(got, v.list, histories.Value.Equal)
		if !v.known {
			ok = len(got) >= len(v.suffix) && slices.EqualFunc(got[len(got)-len(v.suffix):], v.suffix, histories.Value.Equal)
		}
		if !ok {
			expected := histories.List(v.list...).String()
			if !v.known {
				expected = "[… " + strings.TrimPrefix(histories.List(v.suffix...).String(), "[")
			}
			f.report("internal", []int64{t.completed}, func() string {
				return fmt.Sprintf("%s read key %v as %v, but by what it had read and appended itself it should be %s",
					f.describe(t), m.Key, m.Value, expected)
			})
			return
		}
		v.known, v.list = true, got
	}
}

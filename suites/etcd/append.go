package etcd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jepsentest/go/histories"
	"github.com/jepsentest/go/jepsentest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// AppendClient runs transactions of appends and reads. The list under a key is
// the text of its elements, separated by blanks.
//
// Transactions that only read are a single request. Others take two: the first
// reads the keys to be appended to; the second writes all new lists and reads
// the other keys, guarded by the condition that the keys read first have not
// changed. If they have, the transaction fails.
type AppendClient struct {
	db   *DB
	etcd *clientv3.Client
}

// NewAppendClient returns the prototype of clients of db.
func NewAppendClient(db *DB) *AppendClient { return &AppendClient{db: db} }

// connect makes a client that talks to one node and tries nothing twice: a retry
// that nobody sees would blur what happened.
func connect(endpoint string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints:       []string{endpoint},
		MaxUnaryRetries: 1,
		// A node that has frozen is noticed within the time of a fault.
		DialKeepAliveTime:    2 * time.Second,
		DialKeepAliveTimeout: 2 * time.Second,
		Logger:               zap.NewNop(),
	})
}

// Open connects to a node.
func (c *AppendClient) Open(_ context.Context, node string) (jepsentest.Client, error) {
	endpoint, err := c.db.Endpoint(node)
	if err != nil {
		return nil, err
	}
	etcd, err := connect(endpoint)
	if err != nil {
		return nil, err
	}
	return &AppendClient{db: c.db, etcd: etcd}, nil
}

// Close ends the connection.
func (c *AppendClient) Close(context.Context) error { return c.etcd.Close() }

// Invoke runs the transaction in op.Value.
func (c *AppendClient) Invoke(ctx context.Context, op *histories.Op) (histories.Value, error) {
	mops, ok := op.Value.Txn()
	if !ok {
		return histories.Value{}, fmt.Errorf("etcd: %s %v is no transaction", op.F, op.Value)
	}
	t := newTransaction(mops)
	if len(t.appended) > 0 {
		if err := c.readAppended(ctx, t); err != nil {
			return histories.Value{}, Classify(err, true) // nothing has been written
		}
	}
	if err := c.commit(ctx, t); err != nil {
		return histories.Value{}, err
	}
	return t.result()
}

// transaction is one on its way.
type transaction struct {
	mops []histories.Mop
	// keys are the keys in order of appearance; appended those that it
	// appends to, read the others.
	appended, read []string
	state          map[string]version
}

// version is what was read of a key.
type version struct {
	list     string
	revision int64 // at which it was last modified; 0 if it does not exist
}

func keyOf(m *histories.Mop) string { return "append/" + m.Key.String() }

func newTransaction(mops []histories.Mop) *transaction {
	t := &transaction{mops: mops, state: map[string]version{}}
	appends := map[string]bool{}
	for i := range mops {
		if mops[i].IsWrite() {
			appends[keyOf(&mops[i])] = true
		}
	}
	seen := map[string]bool{}
	for i := range mops {
		k := keyOf(&mops[i])
		if seen[k] {
			continue
		}
		seen[k] = true
		if appends[k] {
			t.appended = append(t.appended, k)
		} else {
			t.read = append(t.read, k)
		}
	}
	return t
}

func gets(keys []string) []clientv3.Op {
	ops := make([]clientv3.Op, len(keys))
	for i, k := range keys {
		ops[i] = clientv3.OpGet(k)
	}
	return ops
}

// note keeps what gets of the given keys returned.
func (t *transaction) note(keys []string, resp *clientv3.TxnResponse) {
	for i, k := range keys {
		for _, kv := range resp.Responses[i].GetResponseRange().Kvs {
			t.state[k] = version{string(kv.Value), kv.ModRevision}
		}
	}
}

func (c *AppendClient) readAppended(ctx context.Context, t *transaction) error {
	resp, err := c.etcd.Txn(ctx).Then(gets(t.appended)...).Commit()
	if err != nil {
		return err
	}
	t.note(t.appended, resp)
	return nil
}

// commit reads the keys that are only read and writes the others, at once.
func (c *AppendClient) commit(ctx context.Context, t *transaction) error {
	if len(t.appended) == 0 && len(t.read) == 1 {
		resp, err := c.etcd.Get(ctx, t.read[0])
		if err != nil {
			return Classify(err, true)
		}
		for _, kv := range resp.Kvs {
			t.state[t.read[0]] = version{string(kv.Value), kv.ModRevision}
		}
		return nil
	}
	var guards []clientv3.Cmp
	ops := gets(t.read)
	final := t.finalLists()
	for _, k := range t.appended {
		guards = append(guards, clientv3.Compare(clientv3.ModRevision(k), "=", t.state[k].revision))
		ops = append(ops, clientv3.OpPut(k, final[k]))
	}
	resp, err := c.etcd.Txn(ctx).If(guards...).Then(ops...).Commit()
	switch {
	case err != nil:
		return Classify(err, len(t.appended) == 0)
	case !resp.Succeeded:
		return errGuard
	}
	t.note(t.read, resp)
	return nil
}

func appendTo(list string, element histories.Value) string {
	if list == "" {
		return element.String()
	}
	return list + " " + element.String()
}

// finalLists returns the lists of the appended keys after all appends.
func (t *transaction) finalLists() map[string]string {
	lists := map[string]string{}
	for _, k := range t.appended {
		lists[k] = t.state[k].list
	}
	for i := range t.mops {
		if m := &t.mops[i]; m.IsWrite() {
			lists[keyOf(m)] = appendTo(lists[keyOf(m)], m.Value)
		}
	}
	return lists
}

// result fills in what the reads saw, of which each sees the appends before it.
func (t *transaction) result() (histories.Value, error) {
	lists := map[string]string{}
	for k, v := range t.state {
		lists[k] = v.list
	}
	out := make([]histories.Mop, len(t.mops))
	for i, m := range t.mops {
		k := keyOf(&m)
		if m.IsWrite() {
			lists[k] = appendTo(lists[k], m.Value)
		} else if list := lists[k]; list != "" {
			v, err := parseList(list)
			if err != nil {
				return histories.Value{}, fmt.Errorf("etcd: key %s holds %q: %w", k, list, err)
			}
			m.Value = v
		}
		out[i] = m
	}
	return histories.Txn(out...), nil
}

func parseList(s string) (histories.Value, error) {
	fields := strings.Fields(s)
	ints := make([]int64, len(fields))
	for i, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return histories.Value{}, err
		}
		ints[i] = n
	}
	return histories.Ints(ints...), nil
}

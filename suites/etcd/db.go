// Package etcd tests etcd: what its clients, its faults and its specs are is
// written here the way the users of the framework would write it for their own
// database. Run it with
//
//	go test ./suites/etcd
//	go test ./suites/etcd -ginkgo.label-filter=long -timeout 3h
package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jepsentest/go/jepsentest"
	"github.com/jepsentest/go/jepsentest/cluster"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// DefaultVersion is the version of etcd that is tested unless another is asked
// for. It is the one that the module in the folder image pins.
const DefaultVersion = "v3.6.12"

const (
	clientPort = 2379
	peerPort   = 2380
)

// Image says where etcd comes from: from a registry if ref is given, otherwise
// it is built from its Go modules, at the given version (empty:
// [DefaultVersion]; "3.5.9" and "v3.5.9" are the same).
func Image(version, ref string) cluster.Image {
	if ref != "" {
		return cluster.Registry(ref)
	}
	if version == "" {
		version = DefaultVersion
	}
	if !strings.HasPrefix(version, "v") {
		version = "v" + version
	}
	return cluster.GoBinary(cluster.GoBinarySpec{
		Name:    "etcd",
		Module:  "go.etcd.io/etcd/server/v3",
		Version: version,
		Dir:     "image",    // for the version that it pins
		Main:    mainSource, // for all others
	})
}

// mainSource is the program that is etcd.
const mainSource = `package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
`

// DB is an etcd cluster in containers. It is a jepsentest.DB.
type DB struct {
	// Image is what the nodes run.
	Image cluster.Image
	// SnapshotCount is after how many writes etcd makes a snapshot and
	// truncates its log; 0 means 100, so that even short tests see it.
	SnapshotCount int
	// KeepNodes leaves the nodes running after the test.
	KeepNodes bool

	cluster *cluster.Cluster
}

// Setup starts the nodes and waits until all of them serve reads and writes.
func (db *DB) Setup(ctx context.Context, env *jepsentest.Env) error {
	c, err := cluster.Start(ctx, cluster.Spec{
		RunID:      env.RunID,
		Name:       "etcd",
		Nodes:      env.Nodes,
		Image:      db.Image,
		Entrypoint: []string{"etcd"},
		ClientPort: clientPort,
		Command:    db.command,
		Ready:      ready,
		KeepNodes:  db.KeepNodes,
		Log:        env.Logf,
	})
	if err != nil {
		return err
	}
	db.cluster = c
	return nil
}

func (db *DB) command(self cluster.Peer, all []cluster.Peer) []string {
	var members []string
	for _, p := range all {
		members = append(members, fmt.Sprintf("%s=http://%s:%d", p.Name, p.Name, peerPort))
	}
	snapshots := db.SnapshotCount
	if snapshots == 0 {
		snapshots = 100
	}
	return []string{
		"--name", self.Name,
		"--data-dir", "/data/etcd",
		"--listen-client-urls", fmt.Sprintf("http://0.0.0.0:%d", clientPort),
		"--advertise-client-urls", fmt.Sprintf("http://%s:%d", self.Name, clientPort),
		"--listen-peer-urls", fmt.Sprintf("http://0.0.0.0:%d", peerPort),
		"--initial-advertise-peer-urls", fmt.Sprintf("http://%s:%d", self.Name, peerPort),
		"--initial-cluster", strings.Join(members, ","),
		"--initial-cluster-state", "new",
		"--snapshot-count", fmt.Sprint(snapshots),
	}
}

// ready asks a node whether it serves linearizable reads, for which there must
// be a leader.
func ready(ctx context.Context, n *cluster.Node) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Addr()+"/health", nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var health struct{ Health, Reason string }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 4096)).Decode(&health); err != nil {
		return fmt.Errorf("health: %w", err)
	}
	if health.Health != "true" {
		return fmt.Errorf("not healthy: %s", health.Reason)
	}
	return nil
}

// Teardown removes the nodes.
func (db *DB) Teardown(ctx context.Context, _ *jepsentest.Env) error {
	if db.cluster == nil {
		return nil
	}
	return db.cluster.Close(ctx)
}

// CollectLogs writes each node's log to <dir>/<node>/etcd.log.
func (db *DB) CollectLogs(ctx context.Context, dir string) error {
	if db.cluster == nil {
		return nil
	}
	var errs []error
	for _, n := range db.cluster.Nodes() {
		errs = append(errs, saveLog(ctx, n, filepath.Join(dir, n.Name())))
	}
	return errors.Join(errs...)
}

func saveLog(ctx context.Context, n *cluster.Node, dir string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "etcd.log"))
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	return n.Logs(ctx, f)
}

// Cluster returns the running cluster.
func (db *DB) Cluster() *cluster.Cluster { return db.cluster }

// Endpoint returns the address of a node, for clients.
func (db *DB) Endpoint(node string) (string, error) {
	if db.cluster == nil {
		return "", fmt.Errorf("etcd is not running")
	}
	n := db.cluster.Node(node)
	if n == nil {
		return "", fmt.Errorf("no node is called %q", node)
	}
	return "http://" + n.Addr(), nil
}

// Primaries returns the node that leads, by what the members with the highest
// term say.
func (db *DB) Primaries(ctx context.Context) ([]string, error) {
	type answer struct{ term, self, leader uint64 }
	answers := map[string]answer{}
	for _, n := range db.cluster.Nodes() {
		if st, err := db.status(ctx, n.Name()); err == nil {
			answers[n.Name()] = answer{st.RaftTerm, st.Header.MemberId, st.Leader}
		}
	}
	var newest answer
	for _, a := range answers {
		if a.term > newest.term && a.leader != 0 {
			newest = a
		}
	}
	for name, a := range answers {
		if newest.leader != 0 && a.self == newest.leader {
			return []string{name}, nil
		}
	}
	return nil, fmt.Errorf("no node that answers knows a leader that answers")
}

func (db *DB) status(ctx context.Context, node string) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	endpoint, err := db.Endpoint(node)
	if err != nil {
		return nil, err
	}
	c, err := connect(endpoint)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Status(ctx, endpoint)
}

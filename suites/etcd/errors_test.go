package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jepsentest/go/jepsentest"
	"github.com/jepsentest/go/suites/etcd"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestClassify(t *testing.T) {
	unavailable := func(text string) error { return status.Error(codes.Unavailable, text) }
	for _, c := range []struct {
		err      error
		code     string
		definite bool
	}{
		{rpctypes.ErrCompacted, "compacted", true},
		{rpctypes.ErrDuplicateKey, "duplicate-key", true},
		{rpctypes.ErrKeyNotFound, "not-found", true},
		{rpctypes.ErrTooManyRequests, "too-many-requests", true},
		{rpctypes.ErrGRPCUnhealthy, "unhealthy", true},
		{unavailable("connection error: desc = \"transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused\""), "connection-refused", true},
		{unavailable("connection error: desc = \"error reading server preface: EOF\""), "no-connection", true},
		{rpctypes.ErrLeaderChanged, "leader-changed", false},
		{rpctypes.ErrGRPCTimeout, "server-timeout", false},
		{rpctypes.ErrGRPCTimeoutDueToLeaderFail, "server-timeout", false},
		{rpctypes.ErrNoLeader, "no-leader", false},
		{rpctypes.ErrStopped, "stopped", false},
		{unavailable("error reading from server: EOF"), "connection-closed", false},
		{unavailable("error reading from server: read tcp: connection reset by peer"), "connection-reset", false},
		{unavailable("something new"), "unavailable", false},
		{context.DeadlineExceeded, "timeout", false},
		{fmt.Errorf("wrapped: %w", context.Canceled), "cancelled", false},
		{errors.New("no idea"), "unknown", false},
	} {
		err := etcd.Classify(c.err, false)
		var e *etcd.Error
		if !errors.As(err, &e) || e.Code() != c.code || jepsentest.IsDefinite(err) != c.definite {
			t.Errorf("%v: got %v, definite %v; want %s, %v", c.err, e.Code(), jepsentest.IsDefinite(err), c.code, c.definite)
		}
		if !errors.Is(err, c.err) {
			t.Errorf("%v is lost", c.err)
		}
		if !jepsentest.IsDefinite(etcd.Classify(c.err, true)) {
			t.Errorf("%v: a read that failed is not known to have no effect", c.err)
		}
	}
}

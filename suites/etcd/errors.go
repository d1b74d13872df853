package etcd

import (
	"context"
	"errors"
	"strings"

	"github.com/jepsentest/go/jepsentest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A rule says what an error means. definite errors are those after which the
// request certainly has not taken effect and never will.
type rule struct {
	text     string // what the message contains
	code     string // the kind, in one word
	definite bool
}

// The rules are tried in order.
var rules = []rule{
	// etcd refused the request before it was proposed.
	{"required revision has been compacted", "compacted", true},
	{"duplicate key given in txn request", "duplicate-key", true},
	{"key not found", "not-found", true},
	{"too many requests", "too-many-requests", true},
	{"unhealthy cluster", "unhealthy", true},
	{"raft: stopped", "raft-stopped", true},
	// No connection was there to send it on: it was refused, or ended before
	// the server had greeted, and a client does not send anything earlier.
	{"connection refused", "connection-refused", true},
	{"error reading server preface", "no-connection", true},
	// Everything else leaves open whether it will take effect.
	{"leader changed", "leader-changed", false},
	{"request timed out", "server-timeout", false},
	{"no leader", "no-leader", false},
	{"connection reset", "connection-reset", false},
	{"broken pipe", "connection-reset", false},
	{"EOF", "connection-closed", false},
	{"transport is closing", "connection-closed", false},
	{"server stopped", "stopped", false},
}

// Error is an error of etcd, or of the way to it.
type Error struct {
	err      error
	code     string
	definite bool
}

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// Code names the kind of error in one word.
func (e *Error) Code() string { return e.code }

// Definite reports whether the request certainly had, and will have, no effect.
func (e *Error) Definite() bool { return e.definite }

var _ jepsentest.CodedError = (*Error)(nil)

// Classify says what an error of a request means. A request that changes
// nothing is certain to have had no effect, whatever happened.
func Classify(err error, readOnly bool) error {
	if err == nil {
		return nil
	}
	out := &Error{err: err, code: "unknown"}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		out.code = "timeout"
	case errors.Is(err, context.Canceled):
		out.code = "cancelled"
	default:
		if s, ok := status.FromError(err); ok && s.Code() != codes.Unknown {
			out.code = strings.ToLower(s.Code().String())
		}
		for _, r := range rules {
			if strings.Contains(err.Error(), r.text) {
				out.code, out.definite = r.code, r.definite
				break
			}
		}
	}
	out.definite = out.definite || readOnly
	return out
}

// errGuard says that a transaction was not applied because what it had read
// before was no longer so.
var errGuard = &Error{err: errors.New("a key changed between the read and the write"), code: "guard", definite: true}

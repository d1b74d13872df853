package holder

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Client speaks to one holder. It is safe for concurrent use.
type Client struct {
	Base string       // "http://host:port" of the control port
	HTTP *http.Client // nil: http.DefaultClient
}

// Healthy returns nil once the holder answers.
func (c Client) Healthy(ctx context.Context) error {
	return c.do(ctx, http.MethodGet, "/healthz", nil, nil)
}

// Declare makes rules all that is in force and returns the state that the kernel then has. An
// error leaves it open whether the declaration took effect; declaring again settles it.
func (c Client) Declare(ctx context.Context, rules []Rule) (State, error) {
	if rules == nil {
		rules = []Rule{}
	}
	var st State
	err := c.do(ctx, http.MethodPut, "/rules", rules, &st)
	return st, err
}

// State returns the rules in force and their counters.
func (c Client) State(ctx context.Context) (State, error) {
	var st State
	err := c.do(ctx, http.MethodGet, "/rules", nil, &st)
	return st, err
}

// Listening returns the TCP ports on which the node accepts connections.
func (c Client) Listening(ctx context.Context) ([]uint16, error) {
	var ports []uint16
	err := c.do(ctx, http.MethodGet, "/listening", nil, &ports)
	return ports, err
}

func (c Client) do(ctx context.Context, method, path string, in, out any) error {
	fail := func(err error) error { return fmt.Errorf("holder %s %s: %w", method, path, err) }
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return fail(err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, body)
	if err != nil {
		return fail(err)
	}
	hc := c.HTTP
	if hc == nil {
		hc = http.DefaultClient
	}
	resp, err := hc.Do(req)
	if err != nil {
		return fail(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		msg, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return fail(fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(msg))))
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fail(err)
	}
	return nil
}

package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/agent-runner/agent-runner/host/api"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// StartRun starts a run, or resumes a paused one, and returns without waiting for its end. The
// idempotency key identifies the request: repeating the request starts no second run, and the
// server rejects a different request with the same key. If key is empty, StartRun uses a random
// one. If the server is unreachable, StartRun retries once, but only to start a run.
func (c *Client) StartRun(ctx context.Context, s *api.StartRun, key string) (*api.Run, error) {
	if key == "" {
		key = rand.Text()
	}
	r := &request{method: http.MethodPost, path: "/v1/runs", in: s, header: http.Header{"Idempotency-Key": {key}}}
	out := &api.Run{}
	err := c.call(ctx, r, out)
	var gone *UnreachableError
	if errors.As(err, &gone) && s.Run == "" {
		err = c.call(ctx, r, out)
	}
	return out, err
}

// Runs returns a page of the runs that a filter selects, and the next page's cursor. A page may have
// fewer runs than its limit, or none, although more follow.
func (c *Client) Runs(ctx context.Context, f RunFilter, p Page) (runs []*api.Run, next string, err error) {
	q := p.query()
	f.add(q)
	var out struct {
		Runs []*api.Run `json:"runs"`
		Next string     `json:"next_cursor"`
	}
	err = c.get(ctx, "/v1/runs", q, &out)
	return out.Runs, out.Next, err
}

// Run returns a run, with the text of its answer if the run has one.
func (c *Client) Run(ctx context.Context, id string) (*api.Run, error) {
	out := &api.Run{}
	return out, c.get(ctx, path("/v1/runs/%s", id), nil, out)
}

// CancelRun requests the cancellation of a run, and returns the run.
func (c *Client) CancelRun(ctx context.Context, id string) (*api.Run, error) {
	out := &api.Run{}
	return out, c.call(ctx, &request{method: http.MethodPost, path: path("/v1/runs/%s/cancel", id)}, out)
}

// DeleteRun deletes a run that is finished or paused.
func (c *Client) DeleteRun(ctx context.Context, id string) error {
	return c.delete(ctx, path("/v1/runs/%s", id))
}

// RunHistory returns the messages and the recorded steps of a run.
func (c *Client) RunHistory(ctx context.Context, id string) (*api.RunHistory, error) {
	out := &api.RunHistory{}
	return out, c.get(ctx, path("/v1/runs/%s/history", id), nil, out)
}

// Events returns stored events of a run with numbers greater than after, and whether more are
// stored.
func (c *Client) Events(ctx context.Context, id string, after int64) (events []abi.Event, more bool, err error) {
	var out struct {
		Events []json.RawMessage `json:"events"`
		More   bool              `json:"more"`
	}
	q := url.Values{"after": {strconv.FormatInt(after, 10)}}
	if err := c.get(ctx, path("/v1/runs/%s/events", id), q, &out); err != nil {
		return nil, false, err
	}
	events = make([]abi.Event, len(out.Events))
	for i, b := range out.Events {
		if events[i], err = decodeEvent(b); err != nil {
			return nil, false, err
		}
	}
	return events, out.More, nil
}

func decodeEvent(b []byte) (e abi.Event, err error) {
	if _, err = abijson.Decode(b, &e); err != nil {
		err = fmt.Errorf("decode event of the run; the server may be of another version: %w", err)
	}
	return e, err
}

package model

import (
	"context"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// A Choice is one of several models that can answer a request.
type Choice struct {
	Model Model
	// Name, if not empty, replaces the model's name in the request.
	Name string
}

type fallback struct {
	choices   []Choice
	onAttempt func(context.Context, Attempt)
}

// WithFallback returns a model that calls the first choice. If that call fails with a retryable
// error, or the choice is unreachable, the model calls the next choice, and so on. It does not if a
// chunk of the answer has been delivered. onAttempt, which may be nil, is called for each attempt
// that is followed by another. WithFallback panics if choices is empty.
func WithFallback(choices []Choice, onAttempt func(context.Context, Attempt)) Model {
	if len(choices) == 0 {
		panic("model: WithFallback without a choice")
	}
	return &fallback{append([]Choice(nil), choices...), onAttempt}
}

// Generate implements Model.
func (f *fallback) Generate(ctx context.Context, req *Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	d := delivery{sink: sink}
	var failures []string
	for i := 0; ; i++ {
		asked := f.choices[i].request(req)
		res, failed, err := d.generate(ctx, f.choices[i].Model, asked)
		if failed == nil {
			return res, err
		}
		failures = append(failures, asked.Model+": "+failed.Message)
		mayHelp := failed.Retryable || failed.Code == abi.CodeUnavailable
		switch {
		case i+1 < len(f.choices) && mayHelp:
		case len(failures) == 1:
			return nil, err
		default:
			return nil, failed.with("no model answered: %s", strings.Join(failures, "; "))
		}
		next := f.choices[i+1].request(req)
		Attempt{Model: asked.Model, Err: failed, Tries: 1, Next: next.Model}.report(ctx, f.onAttempt)
	}
}

func (c *Choice) request(req *Request) *Request {
	if c.Name == "" {
		return req
	}
	out := *req
	out.Model = c.Name
	return &out
}

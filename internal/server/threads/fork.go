package threads

import (
	"cmp"
	"context"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

type forkThreadInput struct {
	ThreadPath
	Body api.ForkThread
}

// fork creates a thread with copies of the messages of another one.
func (x *Threads) fork(ctx context.Context, c *httpapi.Caller, in *forkThreadInput) (*threadOutput, error) {
	b := &in.Body
	if b.Message != "" && b.Run != "" {
		return nil, httpapi.NewProblem(api.CodeInvalid, "message and run are mutually exclusive")
	}
	if !isLine(b.Message) || !isLine(b.Run) {
		return nil, httpapi.NewProblem(api.CodeInvalid, "message and run are ids, without control characters")
	}
	if err := checkFields(&b.Title, nil, b.Metadata); err != nil {
		return nil, err
	}
	if err := checkAgent(ctx, c, &b.Agent); err != nil {
		return nil, err
	}
	from, err := c.Thread(ctx, in.Thread)
	if err != nil {
		return nil, err
	}
	h := &store.Thread{
		ID:          store.NewThreadID(),
		Subject:     from.Subject,
		Agent:       cmp.Or(b.Agent, from.Agent),
		Title:       b.Title,
		Titled:      b.Title != "",
		Concurrency: cmp.Or(b.Concurrency, from.Concurrency),
		Metadata:    b.Metadata,
	}
	if !h.Titled && from.Titled {
		h.Title, h.Titled = from.Title, true
	}
	if err := c.CheckNewThread(ctx, h); err != nil {
		return nil, err
	}
	if h.Metadata == nil {
		h.Metadata = from.Metadata
	}
	created, err := c.Tenant.ForkThread(ctx, h, &store.ThreadFork{Thread: from.ID, Message: b.Message, Run: b.Run})
	if err != nil {
		return nil, err
	}
	return &threadOutput{showThread(c, created)}, nil
}

package gateway

import (
	"context"
	"errors"

	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/agentmodel"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/runs"
)

// begin starts the run of a request. If the request continues a conversation, the run joins the thread
// of that conversation, or a fork of the thread.
func (x *Models) begin(
	ctx context.Context,
	c *httpapi.Caller,
	ref agents.Ref,
	in agent.Input,
	q *agentmodel.Request,
	key runs.Key,
) (l *runs.ActiveRun, known *runs.Earlier, err error) {
	if err := c.RequireAgent(&ref.AgentRef); err != nil {
		return nil, nil, err
	}
	client := clientOf(q)
	if q.Previous == "" && q.Thread == "" || x.Runs.KnowsKey(ctx, c, key) {
		return x.Runs.BeginOnce(ctx, c, ref, in, client, key)
	}
	client.Turn = &runs.Turn{Thread: q.Thread}
	if q.Previous != "" {
		if _, err := c.Tenant.AgentOf(ctx, ref.AgentRef); err != nil { // check before a fork is stored
			return nil, nil, err
		}
		if err := c.CheckRunQuotas(ctx); err != nil {
			return nil, nil, err
		}
		if err := c.RequireInput(in.Messages, true); err != nil {
			return nil, nil, err
		}
		if client.Turn, err = x.Runs.TurnAfter(ctx, c, q.Previous, q.Model); err != nil {
			return nil, nil, err
		}
	}
	for {
		client.Turn.Instructed = true
		ref.Thread = client.Turn.Thread
		l, known, err = x.Runs.BeginOnce(ctx, c, ref, in, client, key)
		var busy *journal.ThreadBusyError
		if q.Previous == "" || !errors.As(err, &busy) && !errors.Is(err, journal.ErrThreadChanged) {
			if err != nil {
				x.Runs.DiscardFork(ctx, c, client.Turn)
			}
			return l, known, err
		}
		// A concurrent request continues the same response, so this one continues a fork.
		if client.Turn, err = x.Runs.ForkAfter(ctx, c, client.Turn.Thread, q.Previous, q.Model); err != nil {
			return nil, nil, err
		}
	}
}

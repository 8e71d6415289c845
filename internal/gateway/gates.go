package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/gateway/approver"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/weave"
)

// judge asks the gates about each call. It returns the calls that are denied, by ID, with the text
// that takes the place of each. A gate that stops the run denies all calls.
func (x *exchange) judge(
	ctx context.Context,
	run *chain.Run,
	list *message.List,
	res *abi.Response,
) (map[string]string, error) {
	denied := map[string]string{}
	if x.direct {
		return denied, nil
	}
	stop := ""
	for i := range res.Message.ToolCalls {
		c := &res.Message.ToolCalls[i]
		call := abi.Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments}
		x.announce(abi.Event{Type: abi.EventToolCall, Call: &call})
		if stop != "" {
			denied[c.ID] = stop
			continue
		}
		verdict, err := x.verdict(ctx, run, list, call)
		stopped, ok := errors.AsType[*ending.StoppedError](err)
		switch {
		case ok:
			stop = fmt.Sprintf("[%s denied the call of %s: %s]", x.g.shown(stopped.Entry), call.Name, stopped.Reason)
			for j := range i + 1 {
				denied[res.Message.ToolCalls[j].ID] = stop
			}
		case err != nil:
			return nil, err
		case verdict.Denied:
			denied[c.ID] = fmt.Sprintf("[%s denied the call of %s: %s]", x.g.shown(verdict.By), call.Name, verdict.Reason)
		}
	}
	return denied, nil
}

// verdict asks the gates about one call. Arguments in which a name occurs twice are denied, since the
// gate and the tool could read different values.
func (x *exchange) verdict(
	ctx context.Context,
	run *chain.Run,
	list *message.List,
	call abi.Call,
) (chain.Verdict, error) {
	if call.Arguments != "" {
		if _, err := rawjson.Parse([]byte(call.Arguments)); err != nil {
			return chain.Verdict{Denied: true, By: "the gateway", Reason: "its arguments are not valid: " + err.Error()}, nil
		}
	}
	tool := abi.Tool{Name: call.Name, Owner: "client"}
	for _, t := range x.request.Call().Tools {
		if t.Name == call.Name {
			tool = t
			tool.Owner = "client"
		}
	}
	return run.Judge(ctx, list, call, tool)
}

// withoutDenied returns an answer of a module with text in place of its denied calls.
func withoutDenied(res *abi.Response, denied map[string]string) *abi.Response {
	if len(denied) == 0 {
		return res
	}
	out := *res
	out.Message.ToolCalls = nil
	text := weave.TextOf(&res.Message)
	for _, c := range res.Message.ToolCalls {
		if reason, ok := denied[c.ID]; ok {
			text += reason
			continue
		}
		out.Message.ToolCalls = append(out.Message.ToolCalls, c)
	}
	out.Message.Content = abi.Text(text)
	if len(out.Message.ToolCalls) == 0 {
		out.FinishReason = abi.FinishStop
	}
	return &out
}

// approve asks the approver to decide on a call for which a gate asks. While it waits, it keeps the
// client's connection alive.
func (x *exchange) approve(ctx context.Context, call abi.Call, asks []abi.Ask) abi.Decision {
	start, stop := time.Now(), x.reply.keepAlive(x.g.o.keepAlive, pingOf(x.endpoint))
	defer func() {
		stop()
		x.waited.Add(int64(time.Since(start)))
	}()
	q := approver.Question{Run: x.id, Route: x.route.Name, Model: x.model, Key: x.key,
		Call: approver.Call{ID: call.ID, Name: call.Name, Arguments: call.Arguments}}
	for _, a := range asks {
		q.Asks = append(q.Asks, approver.Ask{Entry: a.Entry, Reason: a.Reason, Payload: a.Payload})
	}
	answer, err := x.g.o.Approver.Ask(ctx, q)
	if err != nil {
		x.g.o.Logger.Warn("approver", "run", x.id, "tool", call.Name, "error", err)
		return abi.Decision{Decision: abi.Reject, Reason: fmt.Sprintf("The call of %s was not approved: %v.", call.Name, err)}
	}
	d := abi.Decision{Decision: abi.Reject, Reason: answer.Reason, Approver: answer.Approver, AnsweredBy: "approver"}
	if answer.Decision == approver.Allow {
		d.Decision = abi.Approve
	}
	return d
}

// pingOf returns an event that clients of an endpoint ignore: the protocol's ping, or a comment.
func pingOf(e endpoint) []byte {
	if e.path == messagesPath {
		return []byte("event: ping\ndata: {\"type\": \"ping\"}\n\n")
	}
	return []byte(": waiting for an approval\n\n")
}

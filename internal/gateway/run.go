package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/weave"
)

// A runHost is the host of one request's chain.
type runHost struct {
	*record
	*memory
	deadline time.Time
	seq      atomic.Int64
	queue    func(abi.Event) // for observers
}

func newRunHost(ctx context.Context, c *record, held *memory) *runHost {
	h := &runHost{record: c, memory: held}
	h.deadline, _ = ctx.Deadline()
	return h
}

// Where returns the position in the run, which has one step.
func (h *runHost) Where() abi.Run {
	return abi.Run{ID: h.id, Agent: h.route.Name, Step: 1, MaxSteps: 1, NowMS: time.Now().UnixMilli(),
		DeadlineMS: max(1, time.Until(h.deadline).Milliseconds())}
}

// NewID returns an id for a message.
func (h *runHost) NewID() string { return "msg_" + rand.Text() }

// Send completes an event, and passes it to OnEvent.
func (h *runHost) Send(e abi.Event) abi.Event {
	e.Run, e.Step, e.TimeMS, e.Seq = h.id, 1, time.Now().UnixMilli(), h.seq.Add(1)
	h.observe(&e)
	if h.g.o.OnEvent != nil {
		h.g.o.OnEvent(e)
	}
	return e
}

// announce sends an event that observers get, too.
func (h *runHost) announce(e abi.Event) {
	e = h.Send(e)
	if h.queue != nil {
		h.queue(e)
	}
}

// finish asks the gates about the calls of the answer, and sends the answer to the client.
func (x *exchange) finish(ctx context.Context, run *chain.Run, list *message.List, res *abi.Response) error {
	x.announce(abi.Event{Type: abi.EventMessage, Message: &res.Message})
	denied, err := x.judge(ctx, run, list, res)
	if err != nil {
		return err
	}
	if x.reply.isStreamed() {
		return x.reply.finish(res, denied)
	}
	var body []byte
	if x.answer != nil {
		body, err = x.answer.Encode(res, denied)
		if err != nil {
			return err
		}
	} else {
		body = x.endpoint.protocol.NewAnswer(withoutDenied(res, denied), x.model)
	}
	x.reply.whole(body)
	return nil
}

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
			stop = fmt.Sprintf("[%s denied the call of %s: %s]", stopped.Entry, call.Name, stopped.Reason)
			for j := range i + 1 {
				denied[res.Message.ToolCalls[j].ID] = stop
			}
		case err != nil:
			return nil, err
		case verdict.Denied:
			denied[c.ID] = fmt.Sprintf("[%s denied the call of %s: %s]", verdict.By, call.Name, verdict.Reason)
		}
	}
	return denied, nil
}

// verdict asks the gates about one call. Arguments in which a name occurs twice are denied, since the
// gate and the tool could read another one of them.
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

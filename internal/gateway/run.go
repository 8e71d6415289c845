package gateway

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/message"
)

// A runHost is the host of one request's chain.
type runHost struct {
	*record
	*memory
	deadline time.Time
	seq      atomic.Int64
	queue    func(abi.Event) // queues an event for observers
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

// announce sends an event, and queues it for observers.
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

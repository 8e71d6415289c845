package hook

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/size"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A Control is the host's side of a [Call]. It has the methods that the chain and the transports of
// modules use, and that middlewares must not call.
type Control Call

// ControlOf returns the host's side of a call.
func ControlOf(c *Call) *Control { return (*Control)(c) }

func (c *Control) call() *Call { return (*Call)(c) }

// Log calls [Call.Log].
func (c *Control) Log(level int32, text string) { c.call().Log(level, text) }

// Invoke calls the hook and applies its answer; see [Run.invoke].
func (c *Control) Invoke(ctx context.Context, in Input, out any, apply func() error) (record.Verdict, error) {
	return c.run.invoke(ctx, c.call(), in, out, apply)
}

// Serve sets the functions with which a wrapper makes the wrapped call. next makes the call, open
// makes it as a stream, and recv reads that stream.
func (c *Control) Serve(
	next func(ctx context.Context, patch any) (any, error),
	open func(ctx context.Context, patch any) error,
	recv func(ctx context.Context, maxBytes int) (contract.Received, error),
) {
	c.next, c.open, c.recv = next, open, recv
}

// TakeSent sets take as the function that receives the chunks that the hook sends.
func (c *Control) TakeSent(take func(ctx context.Context, chunks []abi.Chunk) error) { c.sender = take }

// SetTool sets the tool call that the hook is called for. variant distinguishes several calls of
// the hook for the same tool call.
func (c *Control) SetTool(call *abi.Call, variant string) { c.tool, c.scope = call, call.ID+variant }

// SetDelivered sets the function that reports whether content of the answer was delivered. After
// the delivery, the hook cannot interrupt the run.
func (c *Control) SetDelivered(delivered func() bool) { c.delivered = delivered }

// Divert sets take as the function that receives the events of the call. They are not sent to the
// run.
func (c *Control) Divert(take func(abi.Event)) { c.eventSink = take }

// Weight returns the size of the hook's answer in bytes.
func (c *Control) Weight() int64 { return c.weight }

// Meter returns the meter of the memory that the host keeps for the call until it ends.
func (c *Control) Meter() *account.Meter { return &c.held }

// View returns the description of list n for the hook's input.
func (c *Control) View(n int) abi.List { return c.call().view(n) }

// Interrupt pauses the run until a person has answered the interrupt. asks lists the questions if
// several gates ask, and is nil otherwise. The error pauses the run, or reports that the interrupt
// exceeds a limit.
func (c *Control) Interrupt(i abi.Interrupt, asks []abi.Ask) error {
	return c.run.interruptWith(c.call(), i, asks)
}

// Report sends an event of the host about the call, unless an earlier pass through the phase sent
// the same variant of the event. It waits for the event's memory. The error ends or pauses the run.
func (c *Control) Report(ctx context.Context, e abi.Event, variant string) error {
	if a := c.run.accountant; a != nil {
		if err := a.AwaitMemory(ctx, size.Event(&e)); err != nil {
			return ending.FromReservation(err)
		}
	}
	e.Entry, e.Hook, e.Digest = c.member.Name, c.Hook, c.member.desc.Digest
	c.run.Recording(func() {
		if !c.run.Record.WasSent(c.key, variantSum(&e, variant), 1) {
			c.call().publish(e)
		}
	})
	return nil
}

// HasReported reports whether Report has sent the given variant of an event of type t, in this pass
// or an earlier one.
func (c *Control) HasReported(t abi.EventType, variant string) bool {
	return c.run.Record.HasSent(c.key, variantSum(&abi.Event{Type: t}, variant))
}

// variantSum returns the hash that identifies a variant of the host's event e in the record.
func variantSum(e *abi.Event, variant string) uint64 {
	return record.EventSum(&abi.Event{Type: e.Type, Name: variant})
}

// Fault reports a fault of the call. It returns an error if the fault ends the run.
func (c *Control) Fault(stage ending.Stage, err error) (record.Verdict, error) {
	return c.run.fault(c.call(), stage, err)
}

// LogFailed logs the error of a hook whose failure has no other effect.
func (c *Control) LogFailed(err *abi.Error) { c.Log(contract.LogError, "failed: "+err.Error()) }

// Entry returns the name of the entry whose hook is called.
func (c *Control) Entry() string { return c.member.Name }

// Probe calls the hook outside of any phase. It applies the call's writes to run-local values, but
// not the answer.
func (c *Control) Probe(ctx context.Context, in, out any) error {
	if in, ok := in.(Input); ok {
		if common := in.Envelope(); common.Run.ID == "" {
			common.Run, common.Entry = c.run.Host.Where(), c.member.Name
		}
	}
	if err := c.member.session.Call(ctx, c.call(), in, out); err != nil {
		return err
	}
	return c.locals.Commit()
}

package hook

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/record"
)

// A Control is the host's side of a hook call: what the chain and the
// transports of modules do with it, and middlewares do not.
type Control Call

// ControlOf returns the host's side of a call.
func ControlOf(c *Call) *Control { return (*Control)(c) }

func (c *Control) call() *Call { return (*Call)(c) }

// Log is [Call.Log].
func (c *Control) Log(level int32, text string) { c.call().Log(level, text) }

// Invoke calls the hook and applies its answer; see [base.invoke].
func (c *Control) Invoke(ctx context.Context, in Input, out any, apply func() error) (record.Verdict, error) {
	return c.run.invoke(ctx, c.call(), in, out, apply)
}

// Serve lets the hook run and read what it wraps.
func (c *Control) Serve(next func(ctx context.Context, patch any) (any, error), open func(ctx context.Context, patch any) error,
	recv func(ctx context.Context, maxBytes int) (abi.Received, error)) {
	c.next, c.open, c.recv = next, open, recv
}

// TakeSent passes what the hook sends to take.
func (c *Control) TakeSent(take func(ctx context.Context, chunks []abi.Chunk) error) { c.hand = take }

// SetTool says that the hook is called about a call of a tool. variant tells
// apart calls of the hook about the same one.
func (c *Control) SetTool(call *abi.Call, variant string) { c.tool, c.scope = call, call.ID+variant }

// SetDelivered sets what reports whether content of the answer was delivered,
// after which the hook cannot interrupt.
func (c *Control) SetDelivered(delivered func() bool) { c.delivered = delivered }

// Divert passes the call's own events to take, which are not sent then.
func (c *Control) Divert(take func(abi.Event)) { c.divert = take }

// Weight returns how many bytes the hook answered with.
func (c *Control) Weight() int64 { return c.weight }

// Meter counts what the host holds for the call, until its end.
func (c *Control) Meter() *account.Meter { return &c.held }

// View returns how list n stands in the input; see [base.view].
func (c *Control) View(n int) abi.List { return c.call().view(n) }

// Interrupt is [base.interrupt].
func (c *Control) Interrupt(i abi.Interrupt, asks []abi.Ask) error {
	return c.run.interruptWith(c.call(), i, asks)
}

// Fault is [base.fault].
func (c *Control) Fault(stage ending.Stage, err error) (record.Verdict, error) {
	return c.run.fault(c.call(), stage, err)
}

// LogFailed reports a hook that failed where that changes nothing.
func (c *Control) LogFailed(err *abi.Error) { c.Log(abi.LogError, "failed: "+err.Error()) }

// Entry returns the name of the entry that is called.
func (c *Control) Entry() string { return c.member.Name }

// Probe calls the hook outside of any phase. It applies nothing of the answer
// but the writes to run-local values.
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

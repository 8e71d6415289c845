package main

import (
	"math"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/names"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/tokens"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

var (
	// closing holds the limit that makes the next model call the last one, without tools.
	closing = middleware.Local[hit]("closing")
	// closed is set after a model call without tools; no further call is allowed.
	closed = middleware.Local[hit]("closed")
	// calls counts the model calls of the run, even if they are unlimited.
	calls = middleware.Counter("calls")
)

// BeforeModel counts the call. If a limit is reached, it ends the run or removes the tools from the
// call. It fails if money is limited and the model has no price.
func (l *limits) BeforeModel(ctx *middleware.Context, call *middleware.ModelStart) error {
	if err := l.priced(call.Model); err != nil {
		return err
	}
	if h, there, err := closed.Get(ctx); err != nil || there {
		return or(err, func() error { return h.end(ctx, onStop) })
	}
	n, err := calls.Add(ctx, 1)
	if err != nil {
		return err
	}
	last, over, err := l.reached(ctx)
	switch {
	case err != nil:
		return err
	case over != nil && (l.OnLimit != onAnswer || n == 1 || over.What == "model calls"):
		return over.end(ctx, l.OnLimit)
	case over != nil:
		last = over
	case last != nil && l.OnLimit != onAnswer:
		last = nil
	}
	if h, there, err := closing.Get(ctx); err != nil {
		return err
	} else if there {
		last = &h
	}
	if last == nil {
		return nil
	}
	if err := closed.Set(ctx, *last); err != nil {
		return err
	}
	if len(call.Tools) > 0 {
		call.Tools = nil
		delete(call.Params, "tool_choice")
		delete(call.Params, "parallel_tool_calls")
		call.Messages.Append(
			abi.User(last.String() + " Do not call tools any more: answer with what you know, and say what is missing."),
		)
	}
	return ctx.Emit("limit_reached", last)
}

// or returns err or, if err is nil, the result of calling then.
func or(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}

// reached counts a model call, unless the tokens or the money of a period are used up. It returns
// two limits, each of which may be nil: last is a limit on model calls that this call exactly
// reaches, and over is a limit on model calls, tokens or money that does not allow this call.
func (l *limits) reached(ctx *middleware.Context) (last, over *hit, err error) {
	for _, p := range l.periods {
		if h, err := p.spent(ctx); err != nil || h != nil {
			return nil, h, err
		}
	}
	for _, p := range l.periods {
		if p.ModelCalls == 0 {
			continue
		}
		n, err := p.add(ctx, modelCalls, 1)
		if err != nil {
			return nil, nil, err
		}
		h := p.hit("model calls", p.ModelCalls)
		if n > p.ModelCalls {
			return nil, h, nil
		}
		if n == p.ModelCalls {
			last = h
		}
	}
	return last, nil, nil
}

// priced returns an error if money is limited and the model has no price.
func (l *limits) priced(model string) error {
	for _, p := range l.periods {
		if p.Money > 0 && l.price(model) == nil {
			return &abi.Error{Code: abi.CodeLimit, Message: "money is limited, but prices has no entry for model " + model}
		}
	}
	return nil
}

// price returns the price for the longest pattern that matches the model's name, or nil if no
// pattern matches.
func (l *limits) price(model string) *price {
	for _, pattern := range l.models {
		if names.Match([]string{pattern}, model) {
			p := l.Prices[pattern]
			return &p
		}
	}
	return nil
}

// AfterModel counts the usage that the model reports, or an estimate if it reports none.
func (l *limits) AfterModel(ctx *middleware.Context, call *middleware.ModelEnd) error {
	if call.Response == nil || call.Source != "model" {
		return nil
	}
	u := call.Response.Usage
	if u == nil || u.TotalTokens == 0 && u.PromptTokens == 0 && u.CompletionTokens == 0 {
		u = estimate(call)
	}
	input, output := within(u.PromptTokens), within(u.CompletionTokens)
	total := max(within(u.TotalTokens), input+output)
	var money int64
	if p := l.price(call.Request.Model); p != nil {
		// A price per million tokens is the price of one token in millionths. Tokens reported as
		// neither input nor output cost the higher price.
		rest := float64(total-input-output) * max(p.Input, p.Output)
		money = int64(math.Ceil(float64(input)*p.Input + float64(output)*p.Output + rest))
	}
	for _, p := range l.periods {
		if err := p.use(ctx, total, money); err != nil {
			return err
		}
	}
	return nil
}

// within returns a reported count, limited to the range from 0 to 1e9 so that sums cannot overflow.
func within(tokens int64) int64 { return min(max(tokens, 0), 1_000_000_000) }

func millionths(money float64) int64 { return int64(math.Ceil(money * 1e6)) }

func estimate(call *middleware.ModelEnd) *abi.Usage {
	u := &abi.Usage{CompletionTokens: int64(tokens.Message(call.Response.Message))}
	for _, m := range call.Request.Messages.All() {
		u.PromptTokens += int64(tokens.Message(m))
	}
	for _, t := range call.Request.Tools {
		u.PromptTokens += int64(tokens.Text(t.Name) + tokens.Text(t.Description) + tokens.Text(string(t.Parameters)))
	}
	return u
}

// BeforeTool counts the call, or rejects it.
func (l *limits) BeforeTool(ctx *middleware.Context, call *middleware.ToolStart) error {
	if h, there, err := closed.Get(ctx); err != nil || there {
		if err == nil {
			call.Respond(abi.ErrorResult(h.String() + " The call was not made."))
		}
		return err
	}
	for i, p := range l.periods {
		h, err := p.tool(ctx, call.Name)
		if err != nil {
			return err
		}
		if h == nil {
			continue
		}
		for _, counted := range l.periods[:i] {
			if err := counted.back(ctx, call.Name); err != nil {
				return err
			}
		}
		return l.refuse(ctx, call, h)
	}
	return nil
}

// refuse rejects a tool call that exceeds the limit h. As OnToolLimit specifies, it also ends the
// run or makes the next model call the last.
func (l *limits) refuse(ctx *middleware.Context, call *middleware.ToolStart, h *hit) error {
	switch l.OnToolLimit {
	case onStop:
		return h.end(ctx, onStop)
	case onAnswer:
		if err := closing.Set(ctx, *h); err != nil {
			return err
		}
	default:
		if err := ctx.Emit("limit_reached", h); err != nil {
			return err
		}
	}
	call.Respond(abi.ErrorResult(h.String() + " The call was not made; do not call it again."))
	return nil
}

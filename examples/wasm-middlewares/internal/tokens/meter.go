package tokens

import (
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// A count is the number of tokens of the run's first messages at one revision of the list.
// It lets a step count only new messages.
type count struct {
	Revision int64 `json:"revision"`
	Messages int   `json:"messages"`
	Tokens   int   `json:"tokens"`
	// Answered is true if the model reported the count. It then includes the instruction,
	// the tools, and the answer that follows those messages.
	Answered bool `json:"answered,omitempty"`
}

var counted = middleware.Local[count]("tokens")

// Measure returns the number of tokens of the step's request. It uses the model's own count
// of the last request, if [Answered] recorded it, and an estimate for later messages. If
// earlier messages changed since, the whole number is an estimate.
func Measure(ctx *middleware.Context, state *middleware.State) (int, error) {
	c, known, err := counted.Get(ctx)
	if err != nil {
		return 0, err
	}
	list := state.Messages
	n, from := list.Len(), 0
	if known && c.Messages <= n && list.ChangedSince(c.Revision) >= c.Messages {
		if from = c.Messages; c.Answered && from < n {
			from++
		}
	} else {
		c.Tokens = Tools(state.Tools)
	}
	for i := from; i < n; i++ {
		c.Tokens += Message(list.At(i))
	}
	return c.Tokens, counted.Set(ctx, count{Revision: list.Revision(), Messages: n, Tokens: c.Tokens})
}

// Answered records the number of tokens of the step's request and answer, if the model
// reports it. Call it in AfterModel.
func Answered(ctx *middleware.Context, call *middleware.ModelEnd) error {
	if call.Response == nil || call.Response.Usage == nil {
		return nil
	}
	u := call.Response.Usage
	total := max(u.TotalTokens, u.PromptTokens+u.CompletionTokens)
	c, known, err := counted.Get(ctx)
	if err != nil || !known || total <= 0 {
		return err
	}
	c.Tokens, c.Answered = int(min(total, 1<<40)), true
	return counted.Set(ctx, c)
}

package tokens

import (
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// A count is how many tokens the first messages of the run need, as of a
// revision of the list, so that a step reads only what is new.
type count struct {
	Revision int64 `json:"revision"`
	Messages int   `json:"messages"`
	Tokens   int   `json:"tokens"`
	// Answered: the model itself said how many there are, with the instruction
	// and the tools, and with the answer behind those messages.
	Answered bool `json:"answered,omitempty"`
}

var counted = middleware.Local[count]("tokens")

// Measure is how many tokens the step's request would have: those of the last
// one by the model's own count, if [Answered] is told of it, and an estimate for
// what came since. What changes messages before the last makes all of it an
// estimate.
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

// Answered notes how many tokens the step's request and its answer had, if the
// model says so. Call it in AfterModel.
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

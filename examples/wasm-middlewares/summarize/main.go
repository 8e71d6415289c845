// Command summarize is a middleware that keeps a long conversation within the model's context
// window: it replaces the older part with a summary, for which it calls a model.
package main

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/tokens"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "summarize",
		Version:     "1.0.0",
		Description: "Replaces the older part of a long conversation by a summary.",
		Requires:    []string{"model"},
	}, newSummarizer())
}

func main() {}

func newSummarizer() *summarizer {
	return &summarizer{Window: 128_000, Keep: 6, SummaryTokens: 4000, UserTokens: 8000, Retries: 2, OnFailure: failKeep}
}

// Actions if a conversation cannot be summarized.
const (
	failKeep = "keep"
	failCut  = "cut"
	failFail = "fail"
)

// pause is the number of new messages after a failure before the next attempt.
const pause = 5

// wait holds the number of messages at which the next attempt is made after a failure.
var wait = middleware.Local[int]("wait")

type summarizer struct {
	Messages      int      `json:"messages" doc:"summarize when there are more messages than this; 0: their number does not matter"`
	Tokens        int      `json:"tokens" doc:"summarize when a request would have more tokens than this; 0: three quarters of the window if messages is not set either, else their number does not matter"`
	Window        int      `json:"window" doc:"how many tokens the window of the model that summarizes has"`
	Keep          int      `json:"keep" doc:"the number of last messages that are not changed, at least 1"`
	SummaryTokens int      `json:"summary_tokens" doc:"a longer summary is shortened"`
	UserTokens    int      `json:"user_tokens" doc:"for what the user wrote in the older part, word for word, the newest first"`
	Models        []string `json:"models" doc:"who is asked for the summary, the next when one fails; without it the agent's model"`
	Retries       int      `json:"retries" doc:"how often each model is asked once more when it fails, at most 5"`
	OnFailure     string   `json:"on_failure" doc:"keep: continue with the whole conversation; cut: drop the older part except the user's messages; fail: end the run"`
	Instruction   string   `json:"instruction" doc:"a text of one's own for the model that summarizes"`
}

// Configure validates the configuration, and sets dependent defaults.
func (s *summarizer) Configure(*middleware.Context) error {
	for _, c := range []struct {
		isError bool
		reason  string
	}{
		{s.Messages < 0 || s.Tokens < 0, "messages and tokens are numbers above 0, or left out"},
		{s.Window < 2000, middleware.Sprintf("window: %d tokens are too few for a summary; want at least 2000", s.Window)},
		{s.Tokens > 0 && s.Tokens < 1000, middleware.Sprintf("tokens: %d are too few for a summary and the remaining messages; want at least 1000", s.Tokens)},
		{s.Tokens > s.Window, middleware.Sprintf("tokens: %d is above the window of %d", s.Tokens, s.Window)},
		{s.Keep < 1, "keep: want at least 1, the message to be answered"},
		{s.Messages > 0 && s.Keep >= s.Messages, middleware.Sprintf("keep: %d of %d messages leaves nothing to summarize; set keep below messages", s.Keep, s.Messages)},
		{s.SummaryTokens < 50 || s.UserTokens < 0, "summary_tokens is at least 50, and user_tokens not below 0"},
		{s.Retries < 0 || s.Retries > 5, middleware.Sprintf("retries: %d is not 0 to 5", s.Retries)},
		{s.OnFailure != failKeep && s.OnFailure != failCut && s.OnFailure != failFail, middleware.Sprintf("on_failure: %q is not one of keep, cut, fail", s.OnFailure)},
	} {
		if c.isError {
			return &abi.Error{Code: abi.CodeInvalid, Message: "config: " + c.reason}
		}
	}
	if s.Messages == 0 && s.Tokens == 0 {
		s.Tokens = s.Window * 3 / 4
	}
	// The size after a summary must be well below the threshold of the next.
	room := s.Window
	if s.Tokens > 0 {
		room = s.Tokens
	}
	s.SummaryTokens, s.UserTokens = min(s.SummaryTokens, room/6), min(s.UserTokens, room/6)
	if len(s.Models) == 0 {
		s.Models = []string{""}
	}
	if s.Instruction == "" {
		s.Instruction = instruction
	}
	return nil
}

// BeforeModelRewriteState summarizes the older part if a threshold is exceeded. If that fails, it
// does what OnFailure specifies.
func (s *summarizer) BeforeModelRewriteState(ctx *middleware.Context, state *middleware.State) error {
	size, due, err := s.due(ctx, state)
	if err != nil || !due {
		return err
	}
	from, to := s.part(state.Messages)
	old := readPart(state.Messages.Slice(from, to))
	if !old.worth() {
		return nil
	}
	text, calls, err := s.summary(ctx, old)
	message := s.message(text, old)
	if err == nil && tokens.Message(message) >= old.tokens {
		err = middleware.Errorf(
			"the summary, of about %d tokens, is no shorter than the %d that it is for",
			tokens.Message(message),
			old.tokens,
		)
	}
	if err != nil {
		goOn, err := s.failed(ctx, state.Messages.Len(), err)
		if err != nil || !goOn {
			return err
		}
		if message = s.message("", old); tokens.Message(message) >= old.tokens {
			return wait.Set(ctx, state.Messages.Len()+pause)
		}
	}
	state.Messages.Replace(from, to, message)
	return ctx.Emit("summarized", map[string]int{
		"messages":       to - from,
		"tokens":         old.tokens,
		"summary_tokens": tokens.Message(message),
		"model_calls":    calls,
		"before":         size,
	})
}

// AfterModel records the number of tokens that the model reports.
func (s *summarizer) AfterModel(ctx *middleware.Context, call *middleware.ModelEnd) error {
	if s.Tokens == 0 {
		return nil
	}
	return tokens.Answered(ctx, call)
}

// due reports whether to summarize. size is the number of tokens of the next request if a token
// threshold is set, and 0 otherwise.
func (s *summarizer) due(ctx *middleware.Context, state *middleware.State) (size int, due bool, err error) {
	if s.Tokens > 0 {
		if size, err = tokens.Measure(ctx, state); err != nil {
			return 0, false, err
		}
	}
	n := state.Messages.Len()
	due = s.Messages > 0 && n > s.Messages || s.Tokens > 0 && size > s.Tokens
	if !due {
		return size, false, nil
	}
	minimum, _, err := wait.Get(ctx)
	return size, n >= minimum, err
}

// failed handles a failed summary. It reports whether to drop the older part anyway.
func (s *summarizer) failed(ctx *middleware.Context, n int, cause error) (cut bool, err error) {
	if s.OnFailure == failFail {
		return false, middleware.Errorf("summarize the conversation: %w", cause)
	}
	if err := ctx.Emit("summary_failed", map[string]string{"error": cause.Error(), "then": s.OnFailure}); err != nil {
		return false, err
	}
	if s.OnFailure == failCut {
		return true, nil
	}
	return false, wait.Set(ctx, n+pause)
}

// part returns the range of the older part: all but the system messages at the beginning
// and the last Keep messages. A call stays with its results. If the last messages alone
// would fill half of Tokens, fewer of them remain, but always the last round.
func (s *summarizer) part(messages *middleware.Messages) (from, to int) {
	n := messages.Len()
	for from < n {
		if role := messages.At(from).Role; role != abi.RoleSystem && role != abi.RoleDeveloper {
			break
		}
		from++
	}
	last, size := n, 0
	for i := n - 1; i >= from; i-- {
		m := messages.At(i)
		size += tokens.Message(m)
		if last < n && s.Tokens > 0 && size > s.Tokens/2 {
			break
		}
		// A tool message belongs to the messages before it, so do not split there.
		if m.Role != abi.RoleTool {
			last = i
			if n-i >= s.Keep {
				break
			}
		}
	}
	if last == n { // only results
		last = from
	}
	return from, last
}

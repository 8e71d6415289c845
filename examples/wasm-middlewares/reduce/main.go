// Command reduce is a middleware that keeps large tool results out of the conversation. It
// cuts a long result when it arrives, leaving a preview of its beginning and end, and
// clears old results if there are too many tokens. The removed text is stored, and the
// model can read it with a tool.
package main

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/tokens"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "reduce",
		Version:     "1.0.0",
		Description: "Cuts large tool results and clears old ones; a tool reads what was taken out.",
	}, newReducer())
}

func main() {}

func newReducer() *reducer {
	return &reducer{
		MaxBytes: 50_000, PreviewBytes: 2000, ClearTokens: 100_000, KeepRounds: 3,
		Keep: keepRun, KeepHours: 168, Tool: "read_result", PageBytes: 8000,
	}
}

// Places to store removed text.
const (
	keepRun   = "run"
	keepStore = "store"
	keepNone  = "none"
)

// direct holds the tools whose result becomes the run's answer.
var direct = middleware.Local[[]string]("direct")

type reducer struct {
	MaxBytes     int      `json:"max_bytes" doc:"a longer result is cut; 0: none is"`
	PreviewBytes int      `json:"preview_bytes" doc:"how much of a result that is cut stays, half of it from its begin and half from its end"`
	ClearTokens  int      `json:"clear_tokens" doc:"old results are cleared when a request would have this many tokens; 0: never"`
	KeepRounds   int      `json:"keep_rounds" doc:"the results of the last rounds of calls are not cleared"`
	ClearAtLeast int      `json:"clear_at_least" doc:"nothing is cleared if it would free fewer tokens than this"`
	Exclude      []string `json:"exclude" doc:"names of tools whose results are not changed; * matches any characters"`
	Keep         string   `json:"keep" doc:"where removed text is stored: run: for the duration of the run; store: in the durable store, which needs the grant store; none: not at all"`
	KeepHours    int      `json:"keep_hours" doc:"the number of hours that the durable store keeps removed text; 0: forever"`
	Tool         string   `json:"tool" doc:"the name of the tool that reads what was taken out"`
	PageBytes    int      `json:"page_bytes" doc:"the maximum size of one answer of that tool"`

	read middleware.Tool
}

// Configure validates the configuration.
func (r *reducer) Configure(*middleware.Context) error {
	for _, c := range []struct {
		isError bool
		reason  string
	}{
		{r.MaxBytes < 0 || r.ClearTokens < 0 || r.ClearAtLeast < 0 || r.KeepHours < 0, "max_bytes, clear_tokens, clear_at_least and keep_hours are not below 0"},
		{r.MaxBytes == 0 && r.ClearTokens == 0, "max_bytes and clear_tokens are both 0: the module would do nothing"},
		{r.MaxBytes > 0 && (r.PreviewBytes < 0 || r.PreviewBytes > r.MaxBytes), middleware.Sprintf("preview_bytes: %d is not 0 to max_bytes, %d", r.PreviewBytes, r.MaxBytes)},
		{r.KeepRounds < 1, "keep_rounds: at least 1: the model has not seen the last results yet"},
		{
			r.Keep != keepRun && r.Keep != keepStore && r.Keep != keepNone,
			middleware.Sprintf("keep: %q is not one of run, store, none", r.Keep),
		},
		{r.Tool == "" || r.PageBytes < 100, "the tool needs a name, and page_bytes of at least 100"},
	} {
		if c.isError {
			return &abi.Error{Code: abi.CodeInvalid, Message: "config: " + c.reason}
		}
	}
	r.read = r.readTool()
	return nil
}

// BeforeAgent records the tools whose results become the run's answer. Unless Keep is [keepNone],
// it registers the tool that reads stored text.
func (r *reducer) BeforeAgent(ctx *middleware.Context, run *middleware.AgentStart) error {
	if len(run.ReturnDirectly) > 0 {
		if err := direct.Set(ctx, run.ReturnDirectly); err != nil {
			return err
		}
	}
	if r.Keep == keepNone {
		return nil
	}
	if err := run.AddTool(r.read.Tool); err != nil {
		return middleware.Errorf("%w; give this one another name, with the key tool", err)
	}
	return nil
}

// CallTool reads stored text.
func (r *reducer) CallTool(ctx *middleware.Context, call *middleware.Call) (*abi.Result, error) {
	return r.read.Run(ctx, call)
}

// AfterTool cuts a result whose text exceeds MaxBytes, unless the tool is excluded or its result
// becomes the run's answer.
func (r *reducer) AfterTool(ctx *middleware.Context, call *middleware.ToolEnd) error {
	// The result of a call by a module goes to that module, not to the model.
	if r.MaxBytes == 0 || call.Result == nil || call.By != nil || r.excluded(call.Name) {
		return nil
	}
	if len(call.Result.Content.String()) <= r.MaxBytes {
		return nil
	}
	answers, _, err := direct.Get(ctx)
	if err != nil {
		return err
	}
	for _, name := range answers {
		if name == call.Name {
			return nil
		}
	}
	return r.cut(ctx, call)
}

// BeforeModelRewriteState clears old results if there are too many tokens.
func (r *reducer) BeforeModelRewriteState(ctx *middleware.Context, state *middleware.State) error {
	if r.ClearTokens == 0 {
		return nil
	}
	size, err := tokens.Measure(ctx, state)
	if err != nil || size < r.ClearTokens {
		return err
	}
	return r.clear(ctx, state.Messages)
}

// AfterModel records the number of tokens that the model reports.
func (r *reducer) AfterModel(ctx *middleware.Context, call *middleware.ModelEnd) error {
	if r.ClearTokens == 0 {
		return nil
	}
	return tokens.Answered(ctx, call)
}

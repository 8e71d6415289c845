// Command codec is a module that repeatedly reads an input of 1 KB and writes an answer, with the
// codec that its configuration selects.
package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// A Plan selects the number of repetitions and the codec: "sdk" as in hooks, or "json" for
// encoding/json with plain structs.
type Plan struct {
	How   string `json:"how"`
	Times int    `json:"times"`
}

func init() {
	middleware.Register(
		middleware.Options{Name: "codec"},
		middleware.Build(func(p Plan) (*codec, error) { return &codec{p, sample()}, nil }),
	)
}

func main() {}

type codec struct {
	plan  Plan
	input []byte
}

// GateTool repeats the work and allows the call.
func (c *codec) GateTool(*middleware.Context, *middleware.Call) (middleware.Decision, error) {
	buf := make([]byte, 0, len(c.input)+abijson.Pad)
	for range c.plan.Times {
		buf = append(buf[:0], c.input...)
		do := plain
		if c.plan.How == "sdk" {
			do = sdk
		}
		if out, err := do(buf); err != nil || len(out) < 500 {
			return middleware.Decision{}, fmt.Errorf("%d bytes: %w", len(out), err)
		}
	}
	return middleware.Allow(), nil
}

func sample() []byte {
	result := abi.TextResult(strings.Repeat("1002,Hotel Flandria,croissant,80,Tue\n", 16))
	in := abi.AfterToolInput{
		Common: abi.Common{
			Run: abi.Run{
				ID:       "run_6ci6flnkg7fxvchuqf4l62oqyx",
				Agent:    "agent",
				Step:     2,
				StepID:   "step_2",
				MaxSteps: 20,
				NowMS:    1732147200123,
			},
			Entry: "redact",
		},
		Call: abi.Call{ID: "call_1", Name: "search", Arguments: `{"query":"croissants"}`},
		Tool: abi.Tool{
			Name:        "search",
			Description: "Searches the orders.",
			Parameters:  abi.JSON(`{"type":"object","properties":{"query":{"type":"string"}}}`),
		},
		Result: result, Source: "tool",
	}
	b, err := abijson.Marshal(in)
	if err != nil {
		panic(err)
	}
	return b
}

func sdk(b []byte) ([]byte, error) {
	var in abi.AfterToolInput
	if err := abijson.Read(b, (*abijson.AfterToolInput)(&in)); err != nil {
		return nil, err
	}
	return abijson.Write(nil, &abijson.AfterToolAnswer{Result: in.Result})
}

type (
	run struct {
		ID       string `json:"id"`
		Agent    string `json:"agent"`
		Step     int    `json:"step"`
		StepID   string `json:"step_id"`
		MaxSteps int    `json:"max_steps"`
		Usage    struct {
			PromptTokens     int `json:"prompt_tokens"`
			CompletionTokens int `json:"completion_tokens"`
			TotalTokens      int `json:"total_tokens"`
		} `json:"usage"`
		NowMS int64 `json:"now_ms"`
	}
	call struct {
		ID        string `json:"id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	tool struct {
		Name        string   `json:"name"`
		Description string   `json:"description"`
		Parameters  abi.JSON `json:"parameters"`
	}
	result struct {
		Content string `json:"content"`
		IsError bool   `json:"is_error,omitempty"`
	}
	input struct {
		Run    run     `json:"run"`
		Entry  string  `json:"entry"`
		Call   call    `json:"call"`
		Tool   tool    `json:"tool"`
		Result *result `json:"result"`
		Source string  `json:"source"`
	}
	answer struct {
		Result *result `json:"result,omitempty"`
	}
)

func plain(b []byte) ([]byte, error) {
	var in input
	if err := json.Unmarshal(b, &in); err != nil {
		return nil, err
	}
	return json.Marshal(answer{in.Result})
}

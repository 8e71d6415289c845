// Command patch-tool-calls is a middleware that answers dangling tool calls:
// those of an assistant's message that no tool message answers, because
// somebody wrote again before the tools were done. Models refuse such a
// conversation, or guess.
package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "patch-tool-calls",
		Version:     "1.0.0",
		Description: "Answers tool calls that were left without a result.",
	}, &patcher{Language: "en"})
}

func main() {}

// texts say, in each language, that a call was canceled.
var texts = map[string]string{
	"en": "Tool call {name} with id {id} was canceled - another message came in before it could be completed.",
	"zh": "工具 {name} 的调用（id {id}）已取消：在它完成之前又收到了新的消息。",
}

// looked is the revision of the messages at which the last step left them
// without dangling calls.
var looked = middleware.Local[int64]("looked")

type patcher struct {
	Language string `json:"language" doc:"of the text: en or zh"`
	Template string `json:"template" doc:"a text of one's own, with {name} and {id} of the call"`
}

// Configure refuses a language that there is no text in.
func (p *patcher) Configure(*middleware.Context) error {
	if texts[p.Language] == "" {
		return &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("config: language: %q is not one of en, zh", p.Language)}
	}
	if p.Template == "" {
		p.Template = texts[p.Language]
	}
	return nil
}

// BeforeModelRewriteState puts a placeholder behind each message with dangling
// calls, in the order of the calls, before the results that are there.
func (p *patcher) BeforeModelRewriteState(ctx *middleware.Context, state *middleware.State) error {
	from, err := begin(ctx, state.Messages)
	if err != nil {
		return err
	}
	for i := from; i < state.Messages.Len(); i++ {
		calls := state.Messages.At(i).ToolCalls
		if len(calls) == 0 {
			continue
		}
		placeholders := p.placeholders(calls, answered(state.Messages, i+1))
		state.Messages.Insert(i+1, placeholders...)
		for _, m := range placeholders {
			if err := ctx.Emit("patched", map[string]string{"tool": m.Name, "call": m.ToolCallID}); err != nil {
				return err
			}
		}
	}
	return looked.Set(ctx, state.Messages.Revision())
}

// begin is the first message worth looking at: the nearest before the first
// change, since the last look, that is no tool message.
func begin(ctx *middleware.Context, messages *middleware.Messages) (int, error) {
	revision, known, err := looked.Get(ctx)
	if err != nil || !known {
		return 0, err
	}
	i := messages.ChangedSince(revision)
	for i > 0 {
		if i--; messages.At(i).Role != abi.RoleTool {
			break
		}
	}
	return i, nil
}

// answered are the ids of the calls that the tool messages from i on answer.
func answered(messages *middleware.Messages, i int) []string {
	var ids []string
	for ; i < messages.Len(); i++ {
		m := messages.At(i)
		if m.Role != abi.RoleTool {
			break
		}
		ids = append(ids, m.ToolCallID)
	}
	return ids
}

// placeholders answer the calls that are not answered. A call without an id
// cannot be.
func (p *patcher) placeholders(calls []abi.ToolCall, answered []string) []abi.Message {
	var out []abi.Message
	for _, c := range calls {
		if c.ID == "" || slices.Contains(answered, c.ID) {
			continue
		}
		text := strings.NewReplacer("{name}", c.Function.Name, "{id}", c.ID).Replace(p.Template)
		out = append(out, abi.ToolMessage(c.ID, c.Function.Name, abi.Text(text)))
	}
	return out
}

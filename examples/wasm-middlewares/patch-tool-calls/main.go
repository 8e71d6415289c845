// Command patch-tool-calls is a middleware that answers dangling tool calls: calls in an assistant's
// message that no tool message answers, because the user wrote again before the tools finished.
// Models reject such a conversation, or invent results. Optionally it also removes surplus results,
// or rejects an inconsistent conversation.
package main

import (
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "patch-tool-calls",
		Version:     "1.1.0",
		Description: "Answers tool calls that were left without a result.",
	}, newPatcher())
}

func main() {}

func newPatcher() *patcher { return &patcher{Language: "en"} }

// texts holds the default text of a placeholder by language.
var texts = map[string]string{
	"en": "Tool call {name} with id {id} was canceled - another message came in before it could be completed.",
	"zh": "工具 {name} 的调用（id {id}）已取消：在它完成之前又收到了新的消息。",
}

// looked holds the revision of the messages that the last step checked.
var looked = middleware.Local[int64]("looked")

type patcher struct {
	Language         string `json:"language" doc:"of the text: en or zh"`
	Template         string `json:"template" doc:"a text of one's own, with {name} and {id} of the call"`
	RemoveOrphans    bool   `json:"remove_orphan_results" doc:"remove results whose call is not in the assistant's message right before them"`
	RemoveDuplicates bool   `json:"remove_duplicate_results" doc:"remove all results of a call but the first"`
	Strict           bool   `json:"strict" doc:"repair nothing: a conversation with missing, orphaned or duplicate results, or with calls without an id, fails the run"`
}

// Configure rejects unknown languages, and options that contradict strict.
func (p *patcher) Configure(*middleware.Context) error {
	if texts[p.Language] == "" {
		return invalid("config: language: %q is not one of en, zh", p.Language)
	}
	if p.Strict && (p.RemoveOrphans || p.RemoveDuplicates) {
		return invalid(
			"config: strict repairs nothing, so remove_orphan_results and remove_duplicate_results cannot be set with it",
		)
	}
	if p.Template == "" {
		p.Template = texts[p.Language]
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeInvalid, Message: middleware.Sprintf(format, args...)}
}

// BeforeModelRewriteState processes the rounds of calls and results in order. It starts at the round
// before the first change since the last step, or at the first message if there are late results.
func (p *patcher) BeforeModelRewriteState(ctx *middleware.Context, state *middleware.State) error {
	i, err := begin(ctx, state.Messages)
	if err != nil {
		return err
	}
	late := readLate(state.Messages, i)
	if i > 0 && len(late.left) > 0 {
		i, late = 0, readLate(state.Messages, 0) // the calls may be in any message
	}
	for i < state.Messages.Len() {
		r := readRound(state.Messages, i)
		if p.Strict {
			err = r.check(i)
		} else {
			err = p.repair(ctx, state.Messages, r, late)
		}
		if err != nil {
			return err
		}
		i = r.end
	}
	return looked.Set(ctx, state.Messages.Revision())
}

// begin returns the index of the first message to check. It is the start of the round before the
// first change since the stored revision, or 0 if no revision is stored.
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

// repair removes surplus placeholders, and surplus results as configured. It inserts a placeholder
// for each call without a result, before the existing results.
func (p *patcher) repair(ctx *middleware.Context, messages *middleware.Messages, r *round, late *late) error {
	late.settle(r)
	r.surplus = slices.DeleteFunc(r.surplus, func(s surplus) bool {
		return !s.synthetic && (s.orphan && !p.RemoveOrphans || !s.orphan && !p.RemoveDuplicates)
	})
	for _, s := range slices.Backward(r.surplus) {
		messages.Delete(s.at, s.at+1)
		r.end--
	}
	for _, s := range r.surplus {
		if err := ctx.Emit("removed", map[string]string{"tool": s.tool, "call": s.call, "why": s.reason()}); err != nil {
			return err
		}
	}
	for i, c := range r.missing {
		messages.Insert(r.first+i, p.placeholder(c))
		r.end++
		if err := ctx.Emit("patched", map[string]string{"tool": c.Function.Name, "call": c.ID}); err != nil {
			return err
		}
	}
	return nil
}

// placeholder returns a message that answers a call. Its extra marks it as synthetic for later
// readers of the conversation; models do not see it.
func (p *patcher) placeholder(c abi.ToolCall) abi.Message {
	text := strings.NewReplacer("{name}", c.Function.Name, "{id}", c.ID).Replace(p.Template)
	m := abi.ToolMessage(c.ID, c.Function.Name, abi.Text(text))
	m.Extra = []byte(`{"synthetic":true}`)
	return m
}

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

// sent passes messages to the module and returns the messages that the model receives.
func sent(t *testing.T, h *middlewaretest.Host, messages ...abi.Message) []abi.Message {
	t.Helper()
	h.SetMessages(messages...)
	answer, err := h.BeforeModel(abi.BeforeModelInput{})
	require.NoError(t, err)
	require.Nil(t, answer.Stop)
	out := h.Messages()
	if answer.Request.Messages.Whole {
		return answer.Request.Messages.Replace
	}
	for _, s := range answer.Request.Messages.Splice {
		require.Equal(t, s.Remove, len(s.Insert))
		copy(out[s.At:], s.Insert)
	}
	return out
}

// said streams text in pieces of size characters, and returns the output.
func said(t *testing.T, h *middlewaretest.Host, s string, size int) string {
	t.Helper()
	var chunks []abi.Chunk
	for runes := []rune(s); len(runes) > 0; runes = runes[min(size, len(runes)):] {
		chunks = append(chunks, text(string(runes[:min(size, len(runes))])))
	}
	var out strings.Builder
	for _, c := range stream(t, h, int64(size), chunks...) {
		out.WriteString(c.Text)
	}
	return out.String()
}

func TestTokens(t *testing.T) {
	t.Parallel()
	h := newHost(t, object{"strategy": "token", "strategies": object{"ip": "redact"}})
	got := sent(
		t,
		h,
		abi.User("I am bob@example.com, not amy@example.org; 10.0.0.1"),
		abi.Message{
			Role:      abi.RoleAssistant,
			ToolCalls: []abi.ToolCall{abi.NewToolCall("1", "send", `{"to":"amy@example.org"}`)},
		},
		abi.ToolMessage("1", "send", abi.Text("BOB@example.com <EMAIL_2>")),
	)
	require.Equal(t, "I am <EMAIL_1>, not <EMAIL_2>; [REDACTED_IP]", got[0].Content.String())
	require.Equal(
		t,
		`{"to":"<EMAIL_2>"}`,
		got[1].ToolCalls[0].Function.Arguments,
		"it comes back before the tool is called",
	)
	require.Equal(t, "<EMAIL_1> < EMAIL_2>", got[2].Content.String(), "what only looks like a token is none")
	require.NoError(t, h.Wipe())

	for size := 1; size < 12; size++ {
		require.Equal(
			t,
			"To bob@example.com, <EMAIL_9> <b> <EMAIL_0> <EMAIL_12345> [REDACTED_IP] carl@example.com <EMAIL_",
			said(
				t,
				h,
				"To <EMAIL_1>, <EMAIL_9> <b> <EMAIL_0> <EMAIL_12345> 10.0.0.1 carl@example.com <EMAIL_",
				size,
			),
			"%d",
			size,
		)
	}
	answer, err := h.BeforeTool(
		abi.BeforeToolInput{Call: abi.Call{Name: "send", Arguments: `{"to":["<EMAIL_2>"],"cc":"\u003cEMAIL_1>","n":1e2}`}},
	)
	require.NoError(t, err)
	require.JSONEq(t, `{"to":["amy@example.org"],"cc":"bob@example.com","n":1e2}`, *answer.Arguments)

	final := abi.Assistant("by a module, for <EMAIL_1>")
	end, err := h.AfterAgent(abi.AfterAgentInput{Final: &final})
	require.NoError(t, err)
	require.Equal(t, "by a module, for bob@example.com", end.Final.Content.String())
	result, err := h.AfterTool(abi.AfterToolInput{Result: &abi.Result{Content: abi.Text(mail)}})
	require.NoError(t, err)
	require.Nil(t, result.Result, "the state keeps what a tool said; the model gets tokens")
	require.NotContains(t, string(events(t, h)), "@")
}

func TestTokensThatStay(t *testing.T) {
	t.Parallel()
	h := newHost(t, object{"strategy": "token", "restore_output": false, "restore_arguments": false})
	require.Equal(t, "<EMAIL_1>", sent(t, h, abi.User(mail))[0].Content.String())
	require.Equal(t, "<EMAIL_1> <EMAIL_2> <EMAIL_1>", said(t, h, "<EMAIL_1> eve@example.com "+mail, 3))
	answer, err := h.BeforeTool(abi.BeforeToolInput{Call: abi.Call{Name: "send", Arguments: `{"to":"<EMAIL_1>"}`}})
	require.NoError(t, err)
	require.Nil(t, answer.Arguments)
}

func TestTokensAreBounded(t *testing.T) {
	t.Parallel()
	h := newHost(t, object{"strategy": "token"})
	var many strings.Builder
	for i := range maxTokens + 1 {
		fmt.Fprintf(&many, "u%d@example.com ", i)
	}
	got := sent(t, h, abi.User(many.String()))[0].Content.String()
	require.Contains(t, got, "<EMAIL_500> "+hidden)
	require.NotContains(t, got, "@")
}

func TestBlock(t *testing.T) {
	t.Parallel()
	h := newHost(t, object{"strategies": object{"credit_card": "block"}, "tool_arguments": true})
	const card = "4111 1111 1111 1111"
	h.SetMessages(abi.User(mail + " " + card))
	answer, err := h.BeforeModel(abi.BeforeModelInput{})
	require.NoError(t, err)
	require.Equal(t, "redact_blocked", answer.Stop.Code)
	require.Equal(
		t,
		"The conversation holds data of the kind credit_card, which the model must not be sent.",
		answer.Stop.Reason,
	)
	h.SetMessages(abi.User(mail))
	answer, err = h.BeforeModel(abi.BeforeModelInput{})
	require.NoError(t, err)
	require.Nil(t, answer.Stop)

	require.Equal(t, "it is [BLOCKED_CREDIT_CARD].", said(t, h, "it is "+card+".", 4))
	h.SetMessages(abi.User("?"), abi.Assistant("it is [BLOCKED_CREDIT_CARD]."))
	after, err := h.AfterModelRewriteState(abi.AfterModelRewriteStateInput{})
	require.NoError(t, err)
	require.Equal(t, "redact_blocked", after.Stop.Code)
	h.SetMessages(abi.User("?"), abi.Assistant(card))
	after, err = h.AfterModelRewriteState(abi.AfterModelRewriteStateInput{})
	require.NoError(t, err)
	require.Nil(t, after.Stop, "a stop would leave the state as it is")
	require.Equal(t, "[BLOCKED_CREDIT_CARD]", h.Messages()[1].Content.String())

	result, err := h.AfterTool(
		abi.AfterToolInput{Call: abi.Call{Name: "lookup"}, Result: &abi.Result{Content: abi.Text("paid with " + card)}},
	)
	require.NoError(t, err)
	require.True(t, result.Result.IsError)
	require.Equal(
		t,
		"The result of lookup is withheld: it holds data of the kind credit_card.",
		result.Result.Content.String(),
	)
	call, err := h.BeforeTool(abi.BeforeToolInput{Call: abi.Call{Name: "pay", Arguments: `{"with":4111111111111111}`}})
	require.NoError(t, err)
	require.Equal(
		t,
		"pay was not called: its arguments hold data of the kind credit_card, which it must not get.",
		call.Result.Content.String(),
	)
}

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

type object = map[string]any

func newHost(t *testing.T, config object) *middlewaretest.Host {
	t.Helper()
	h := middlewaretest.New(middleware.Options{}, newRedact())
	require.NoError(t, h.Configure(config))
	return h
}

const (
	mail   = "bob@example.com"
	hidden = "[REDACTED_EMAIL]"
)

func TestRequestIsHiddenOnTheWire(t *testing.T) {
	t.Parallel()
	calls := abi.Message{
		Role:             abi.RoleAssistant,
		ReasoningContent: "ask " + mail,
		ToolCalls:        []abi.ToolCall{abi.NewToolCall("1", "t", `{"to":"`+mail+`"}`)},
	}
	messages := []abi.Message{
		abi.System("be kind, " + mail),
		abi.User("I am " + mail),
		calls,
		abi.ToolMessage("1", "t", abi.Text("sent to "+mail)),
		abi.Assistant(
			"done, " + mail,
		),
		{
			Role: abi.RoleUser,
			Content: abi.Parts(abi.Part{Type: abi.PartText, Text: mail}, abi.Part{
				Type: abi.PartImage, ImageURL: []byte(`{"url":"https://example.com/a.png"}`),
			}),
		},
	}
	for name, c := range map[string]struct {
		config object
		want   []string
	}{
		"by default": {
			nil, []string{"be kind, " + mail, "I am " + hidden, "", "sent to " + hidden, "done, " + hidden, hidden},
		},
		"nothing": {
			object{"input": false, "output": false, "tool_results": false},
			[]string{"be kind, " + mail, "I am " + mail, "", "sent to " + mail, "done, " + mail, mail},
		},
		"input": {
			object{"output": false, "tool_results": false},
			[]string{"be kind, " + mail, "I am " + hidden, "", "sent to " + mail, "done, " + mail, hidden},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, c.config)
			h.SetMessages(messages...)
			answer, err := h.BeforeModel(abi.BeforeModelInput{})
			require.NoError(t, err)
			sent := h.Messages()
			for _, s := range answer.Request.Messages.Splice {
				require.Equal(t, s.Remove, len(s.Insert))
				copy(sent[s.At:], s.Insert)
			}
			for i, want := range c.want {
				require.Equal(t, want, sent[i].Content.String())
			}
			require.Equal(t, mail, h.Messages()[1].Content.String()[5:], "the state is as it was")
			require.Equal(t, name != "nothing", len(h.Events) > 0)
			require.NotContains(t, string(events(t, h)), mail)
		})
	}
}

// TestInputIsHiddenInTheState checks that BeforeAgent hides data in the run's state, except data
// with tokens, and that a second call changes nothing.
func TestInputIsHiddenInTheState(t *testing.T) {
	t.Parallel()
	call := abi.NewToolCall("1", "t", `{"to":"`+mail+`"}`)
	messages := []abi.Message{
		abi.User("I am " + mail), {Role: abi.RoleAssistant, ReasoningContent: "ask " + mail, ToolCalls: []abi.ToolCall{call}},
		abi.ToolMessage("1", "t", abi.Text("sent to "+mail)), abi.Assistant("done, " + mail), abi.User("thanks"),
	}
	for name, c := range map[string]struct {
		config    object
		want      []string
		arguments string
		remembers int
	}{
		"by default": {
			nil, []string{"I am " + hidden, "", "sent to " + hidden, "done, " + hidden, "thanks"}, call.Function.Arguments, 0,
		},
		"arguments": {
			object{"tool_arguments": true},
			[]string{"I am " + hidden, "", "sent to " + hidden, "done, " + hidden, "thanks"},
			`{"to":"[REDACTED_EMAIL]"}`,
			0,
		},
		"results": {
			object{"input": false, "output": false},
			[]string{"I am " + mail, "", "sent to " + hidden, "done, " + mail, "thanks"},
			call.Function.Arguments,
			0,
		},
		"token": {object{"strategy": "token"}, texts(messages), call.Function.Arguments, 0},
		"block": {
			object{"strategy": "block"},
			[]string{"I am [BLOCKED_EMAIL]", "", "sent to [BLOCKED_EMAIL]", "done, [BLOCKED_EMAIL]", "thanks"},
			call.Function.Arguments,
			1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, c.config)
			h.SetMessages(messages...)
			_, err := h.BeforeAgent(abi.BeforeAgentInput{})
			require.NoError(t, err)
			require.Equal(t, c.want, texts(h.Messages()))
			require.Equal(t, c.arguments, h.Messages()[1].ToolCalls[0].Function.Arguments)
			require.Equal(t, name != "token", len(h.Events) > 0)
			require.Len(t, h.Locals(), c.remembers)
			h.Events = nil
			again, err := h.BeforeAgent(abi.BeforeAgentInput{})
			require.NoError(t, err)
			require.True(t, again.Messages.IsZero())
			require.Empty(t, h.Events)

			require.NoError(t, h.Wipe())
			answer, err := h.BeforeModel(abi.BeforeModelInput{})
			require.NoError(t, err)
			require.Equal(t, name == "block", answer.Stop != nil)
		})
	}
}

func events(t *testing.T, h *middlewaretest.Host) []byte {
	t.Helper()
	b, err := json.Marshal(h.Events)
	require.NoError(t, err)
	return b
}

func TestToolResults(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	result := &abi.Result{
		Content: abi.Parts(abi.Part{Type: abi.PartText, Text: mail}, abi.Part{Type: abi.PartText, Text: "ok"}),
	}
	answer, err := h.AfterTool(abi.AfterToolInput{Result: result})
	require.NoError(t, err)
	require.Equal(t, hidden+"ok", answer.Result.Content.String())
	require.JSONEq(t, `{"in":"tool_result","found":{"email":1}}`, string(h.Events[0].Data))

	answer, err = h.AfterTool(abi.AfterToolInput{Error: &abi.Error{Code: abi.CodeTool, Message: "no " + mail}})
	require.NoError(t, err)
	require.Equal(t, "no "+hidden, answer.Error.Message)
	require.Equal(t, abi.CodeTool, answer.Error.Code)

	require.NoError(t, h.Configure(object{"tool_results": false}))
	answer, err = h.AfterTool(abi.AfterToolInput{Result: result})
	require.NoError(t, err)
	require.Nil(t, answer.Result)
}

func TestAnswersOfModules(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	h.SetMessages(abi.User(mail), abi.Assistant("ask "+mail))
	_, err := h.AfterModelRewriteState(abi.AfterModelRewriteStateInput{})
	require.NoError(t, err)
	require.Equal(t, []string{mail, "ask " + hidden}, texts(h.Messages()))
	final := abi.Assistant(mail)
	answer, err := h.AfterAgent(abi.AfterAgentInput{Final: &final})
	require.NoError(t, err)
	require.Equal(t, hidden, answer.Final.Content.String())
}

func texts(messages []abi.Message) (out []string) {
	for _, m := range messages {
		out = append(out, m.Content.String())
	}
	return out
}

func TestToolArguments(t *testing.T) {
	t.Parallel()
	h := newHost(t, object{"tool_arguments": true})
	call := abi.Call{Name: "t", Arguments: `{"to":["bob\u0040example.com",4111111111111111],"n":1}`}
	answer, err := h.BeforeTool(abi.BeforeToolInput{Call: call})
	require.NoError(t, err)
	require.JSONEq(t, `{"to":["[REDACTED_EMAIL]","[REDACTED_CREDIT_CARD]"],"n":1}`, *answer.Arguments)

	require.NoError(t, h.Configure(nil))
	answer, err = h.BeforeTool(abi.BeforeToolInput{Call: call})
	require.NoError(t, err)
	require.Nil(t, answer.Arguments, "arguments are left alone unless asked for")
}

// stream passes chunks to the module one at a time, wipes the module's memory before each, and
// returns the output.
func stream(t *testing.T, h *middlewaretest.Host, id int64, chunks ...abi.Chunk) []abi.Chunk {
	t.Helper()
	var out []abi.Chunk
	for i := range len(chunks) + 1 {
		in := abi.OnChunkInput{Stream: id, Final: i == len(chunks), Chunks: []abi.Chunk{}}
		if !in.Final {
			in.Chunks = chunks[i : i+1]
		}
		require.NoError(t, h.Wipe())
		answer, err := h.OnChunk(in)
		require.NoError(t, err)
		if answer.Chunks == nil {
			answer.Chunks = in.Chunks
		}
		out = append(out, answer.Chunks...)
	}
	return out
}

func text(s string) abi.Chunk { return abi.Chunk{Kind: abi.ChunkText, Text: s} }

func TestStream(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	got := stream(t, h, 1, text("mail bo"), text("b@exam"), text("ple.com"), text(" now, b"), text("ye"))
	var out strings.Builder
	for _, c := range got {
		require.Equal(t, abi.ChunkText, c.Kind)
		require.NotEmpty(t, c.Text)
		out.WriteString(c.Text)
	}
	require.Equal(t, "mail [REDACTED_EMAIL] now, bye", out.String())
	require.Equal(t, "mail ", got[0].Text, "what cannot become an address is shown at once")
	require.Empty(t, h.Locals(), "nothing is kept of a stream that is over")
	require.JSONEq(t, `{"in":"output","found":{"email":1}}`, string(h.Events[0].Data))
}

func TestStreamsOfSeveralTexts(t *testing.T) {
	t.Parallel()
	h := newHost(t, object{"tool_arguments": true})
	reasoning := func(s string) abi.Chunk { return abi.Chunk{Kind: abi.ChunkReasoning, Text: s} }
	call := func(i int, id, name, s string) abi.Chunk {
		return abi.Chunk{Kind: abi.ChunkToolCall, Index: i, ID: id, Name: name, Arguments: s}
	}
	image := abi.Chunk{Kind: abi.ChunkPart, Part: &abi.Part{Type: abi.PartImage}}
	got := stream(
		t,
		h,
		1,
		reasoning("bob@"),
		text("10.0."),
		call(0, "a", "t", ""),
		call(0, "", "", `{"n":41111111`),
		call(1, "b", "t", `{"to":"bob@`),
		call(0, "", "", `11111111}`),
		image,
		call(1, "", "", `example.com"}`),
		text("0.1"),
		reasoning("example.com"),
	)
	sum := map[string]string{}
	for _, c := range got {
		if c.Kind != abi.ChunkPart {
			sum[c.Kind+string(rune('0'+c.Index))] += c.ID + c.Name + c.Text + c.Arguments
		}
	}
	require.Equal(t, map[string]string{
		"reasoning0": hidden, "text0": "[REDACTED_IP]",
		"tool_call0": `at{"n":"[REDACTED_CREDIT_CARD]"}`, "tool_call1": `bt{"to":"[REDACTED_EMAIL]"}`,
	}, sum)
}

// TestBrokenStream checks that the held text of a canceled stream is not part of the next one.
func TestBrokenStream(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	_, err := h.OnChunk(abi.OnChunkInput{Stream: 1, Chunks: []abi.Chunk{text("lost")}})
	require.NoError(t, err)
	require.Equal(t, []abi.Chunk{text("found")}, stream(t, h, 2, text("found")))
}

func TestStreamedToolResults(t *testing.T) {
	t.Parallel()
	h := newHost(t, object{"output": false})
	result := func(id, s string) abi.Chunk { return abi.Chunk{Kind: abi.ChunkToolResult, CallID: id, Text: s} }
	part := abi.Chunk{Kind: abi.ChunkPart, CallID: "c", Part: &abi.Part{Type: abi.PartText, Text: mail}}
	got := stream(
		t,
		h,
		1,
		result("a", "bob@example"),
		result("b", "x@y"),
		result("a", ".com"),
		result("b", ".org "),
		part,
		text(mail),
	)
	sum := map[string]string{}
	for _, c := range got {
		sum[c.CallID] += c.Text
		if c.Part != nil {
			sum[c.CallID] += c.Part.Text
		}
	}
	require.Equal(t, map[string]string{"a": hidden, "b": hidden + " ", "c": hidden, "": mail}, sum)
	require.Contains(t, string(h.Events[0].Data), "tool_result")
}

func TestConfig(t *testing.T) {
	t.Parallel()
	pattern := func(name, pattern string) object {
		return object{"patterns": []object{{"name": "a", "pattern": "a"}, {"name": name, "pattern": pattern}}}
	}
	for want, config := range map[string]object{
		`config: detect[1]: "phone" is not one of email`:            {"detect": []string{"email", "phone"}},
		`config: detect[1]: email is duplicated`:                    {"detect": []string{"email", "email"}},
		`config: strategy: "stop" is not one of`:                    {"strategy": "stop"},
		`config: strategies.ip: "x" is not one of`:                  {"strategies": object{"ip": "x"}},
		`config: strategies.phone: no such kind`:                    {"strategies": object{"phone": "mask"}},
		`config: patterns[1].name: want lower-case letters`:         pattern("Big", "x"),
		`config: patterns[1].name: want lower-case`:                 pattern("email", "x"),
		`config: patterns[1]: a is duplicated`:                      pattern("a", "x"),
		`config: patterns[1].pattern: error parsing regexp`:         pattern("b", "("),
		`config: patterns[1].pattern: it matches the empty text`:    pattern("b", "x*"),
		`config: patterns[1].pattern: say what to look for`:         pattern("b", ""),
		`config: patterns[1].pattern: it is too large; use a short`: pattern("b", "(abcdefghij){300}"),
		`patterns[0].regex`:                                         {"patterns": []object{{"name": "a", "regex": "a"}}},
	} {
		h := middlewaretest.New(middleware.Options{}, newRedact())
		require.ErrorContains(t, h.Configure(config), want)
	}
}

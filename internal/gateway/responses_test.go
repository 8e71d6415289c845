package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/responses"
)

// overResponses makes a route one of the Responses API.
func overResponses(o *Options) {
	u := &o.Routes[0].Upstream
	u.Protocol, u.Path = responses.Protocol{}, "/v1/responses"
}

// codexQuestion is a request as Codex sends it by default: its tools are in the input, and one of them runs programs.
const codexQuestion = `{"model":"m-1","stream":true,"store":false,"input":[{"type":"additional_tools","role":"developer","tools":[` +
	`{"type":"namespace","name":"functions","tools":[{"type":"custom","name":"exec"}]}]}, ` +
	`{"type":"message","role":"user","content":[{"type":"input_text","text":"key abc"}]}]}`

// codexEvents are a streamed answer whose call has a program as its argument.
var codexEvents = []string{
	`data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress","output":[]}}`,
	`data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"reasoning","id":"rs_1"}}`,
	`data: {"type":"response.output_item.done","sequence_number":2,"output_index":0,"item":{"type":"reasoning","id":"rs_1","encrypted_content":"gAA="}}`,
	`data: {"type":"response.output_item.added","sequence_number":3,"output_index":1,"item":{"type":"custom_tool_call","call_id":"c1","name":"exec","input":""}}`,
	`data: {"type":"response.custom_tool_call_input.delta","sequence_number":4,"output_index":1,"delta":"rm()"}`,
	`data: {"type":"response.output_item.done","sequence_number":5,"output_index":1,"item":{"type":"custom_tool_call","call_id":"c1","name":"exec","input":"rm()"}}`,
	`data: {"type":"response.completed","sequence_number":6,"response":{"id":"resp_1","status":"completed","output":[` +
		`{"type":"reasoning","id":"rs_1","encrypted_content":"gAA="},{"type":"custom_tool_call","call_id":"c1","name":"exec","input":"rm()"}]}}`,
}

func TestResponses(t *testing.T) {
	stream := strings.Join(codexEvents, "\n\n") + "\n\n"
	u := newUpstream(t, answers(stream))

	g := newGateway(t, u, overResponses, reader(), gate(abi.DecideAllow, ""))
	status, got, _ := g.post(t, "/v1/responses", codexQuestion)
	require.Equal(t, 200, status)
	require.Equal(t, stream, got)
	require.Equal(t, codexQuestion, u.requests()[0])

	var arguments string
	g = newGateway(t, u, overResponses, &native.Middleware{
		GateTool: func(_ context.Context, _ *native.Call, in *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			arguments = in.Call.Name + in.Call.Arguments
			return &abi.GateToolAnswer{Decision: abi.DecideDeny, Message: "files stay"}, nil
		},
	})
	_, got, _ = g.post(t, "/v1/responses", codexQuestion)
	require.Equal(t, `exec{"input":"rm()"}`, arguments)
	require.True(t, strings.HasPrefix(got, strings.Join(codexEvents[:3], "\n\n")), got)
	require.NotContains(t, got, "rm()")
	require.Contains(t, got, "denied the call of exec: files stay")
	require.Contains(
		t,
		got,
		`"status":"completed","output":[{"type":"reasoning","id":"rs_1","encrypted_content":"gAA="},{"type":"message"`,
	)
}

// TestResponsesRefused checks that a rejected request gets the status 400, after which Codex does not retry.
func TestResponsesRefused(t *testing.T) {
	u := newUpstream(t, answers(""))
	g := newGateway(t, u, overResponses, &native.Middleware{
		BeforeModel: func(context.Context, *native.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			return &abi.BeforeModelAnswer{Control: abi.Control{Stop: &abi.Stop{Reason: "no secrets"}}}, nil
		},
	})
	status, got, _ := g.post(t, "/v1/responses", codexQuestion)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, got, "no secrets")
	status, got, _ = g.post(t, "/v1/responses", `{"model":"m-1","input":"x","previous_response_id":"resp_0"}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, got, `"param":"previous_response_id"`)
	require.Empty(t, u.requests())
}

// TestReasoningStays checks that a module cannot send reasoning that the upstream would reject.
func TestReasoningStays(t *testing.T) {
	u := newUpstream(t, answers(""))
	g := newGateway(t, u, overResponses, &native.Middleware{
		BeforeModel: func(_ context.Context, c *native.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			m := c.List(abi.ListRequest).At(1)
			m.Content = abi.Text("Hello")
			change := abi.ListPatch{Splice: []abi.Splice{{At: 1, Remove: 1, Insert: []abi.Message{m}}}}
			return &abi.BeforeModelAnswer{Request: abi.RequestPatch{Messages: change}}, nil
		},
	})
	status, got, _ := g.post(t, "/v1/responses", `{"model":"m-1","input":[{"role":"user","content":"Hi"},`+
		`{"type":"reasoning","encrypted_content":"gAA="},{"role":"assistant","content":"Ho"},{"role":"user","content":"Hm"}]}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, got, "part of type \\\"reasoning\\\"")
	require.Empty(t, u.requests())
}

// TestChangedPart checks that an answer with several texts keeps its parts if on_chunk changes one of them, although
// the chain joins the texts.
func TestChangedPart(t *testing.T) {
	for name, c := range map[string]struct {
		over   func(*Options)
		path   string
		answer string
	}{
		"chat": {func(*Options) {}, "/v1/chat/completions",
			`{"choices":[{"index":0,"message":{"role":"assistant","content":[{"type":"text","text":"a"},` +
				`{"type":"thinking","thinking":"b"},{"type":"text","text":"c"},{"type":"text","text":"d"}]},"finish_reason":"stop"}]}`},
		"messages": {overMessages, "/v1/messages",
			`{"type":"message","role":"assistant","content":[{"type":"text","text":"a"},` +
				`{"type":"thinking","thinking":"b","signature":"s"},{"type":"text","text":"c"},{"type":"text","text":"d"}],` +
				`"stop_reason":"end_turn"}`},
		"responses": {overResponses, "/v1/responses",
			`{"status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]},` +
				`{"type":"reasoning","id":"rs_1"},{"type":"message","role":"assistant","content":[` +
				`{"type":"output_text","text":"c"},{"type":"output_text","text":"d"}]}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, answers(c.answer))
			g := newGateway(t, u, c.over, &native.Middleware{
				OnChunk: func(_ context.Context, _ *native.Call, in *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
					chunks := append([]abi.Chunk{}, in.Chunks...)
					for i := range chunks {
						chunks[i].Text = strings.ReplaceAll(chunks[i].Text, "c", "C")
					}
					return &abi.OnChunkAnswer{Chunks: chunks}, nil
				},
			})
			body := `{"model":"m-1","messages":[{"role":"user","content":"Hi"}]}`
			if name == "responses" {
				body = `{"model":"m-1","input":"Hi"}`
			}
			status, got, _ := g.post(t, c.path, body)
			require.Equal(t, 200, status, got)
			require.Equal(t, strings.Replace(c.answer, `"text":"c"`, `"text":"C"`, 1), got)
		})
	}
}

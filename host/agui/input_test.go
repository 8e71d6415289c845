package agui_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/agui"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// TestParseInput checks the messages, tools and answers of a valid input, and that invalid inputs
// are rejected with an *abi.Error.
func TestParseInput(t *testing.T) {
	t.Parallel()
	in, err := agui.ParseInput(
		[]byte(`{"threadId":"t","runId":"r","state":{"a":1},"context":[],"forwardedProps":{},"new":true,
		"messages":[
			{"id":"1","role":"user","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"data","value":"AAAA","mimeType":"image/png"}},
				{"type":"audio","source":{"type":"data","value":"BBBB","mimeType":"audio/wav"}},{"type":"document","source":{"type":"url","value":"https://example.com/a.pdf"}}]},
			{"id":"2","role":"reasoning","content":"hm"},
			{"id":"3","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"t","arguments":"{}"}}]},
			{"id":"4","role":"tool","toolCallId":"c","content":"ok"},
			{"id":"5","role":"activity","activityType":"plan","content":{"steps":[]}}],
		"tools":[{"name":"alert","description":"shows a text","parameters":{"type":"object"}}],
		"resume":[{"interruptId":"int_1","status":"resolved","payload":{"decision":"approve"}},{"interruptId":"int_2","status":"cancelled"},{"interruptId":"int_3","status":"resolved"}]}`),
	)
	require.NoError(t, err)
	require.Len(t, in.Messages, 3)
	require.Len(t, in.Raw, 5)
	b, err := abijson.Marshal(in.Messages[0].Content)
	require.NoError(t, err)
	require.JSONEq(t, `[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},
		{"type":"input_audio","input_audio":{"data":"BBBB","format":"wav"}},{"type":"file","file":{"file_data":"https://example.com/a.pdf"}}]`, string(b))
	require.Equal(t, "c", in.Messages[2].ToolCallID)
	require.Equal(t, "alert", in.Tools[0].Name)
	require.Equal(
		t,
		map[string]json.RawMessage{
			"int_1": json.RawMessage(`{"decision":"approve"}`),
			"int_2": json.RawMessage(`false`),
			"int_3": json.RawMessage(`null`),
		},
		in.Answers,
	)

	for body, want := range map[string]string{
		`{"threadId":"t"}`: "needs a threadId and a runId",
		`{"threadId":"t","runId":"r","messages":[{"role":"robot"}]}`:                                                                 `messages[0]: unknown role "robot"`,
		`{"threadId":"t","runId":"r","messages":[{"role":"user","content":5}]}`:                                                      "want a string or parts",
		`{"threadId":"t","runId":"r","messages":[{"role":"user","content":[{"type":"video","source":{"type":"url","value":"x"}}]}]}`: `type "video"`,
		`{"threadId":"t","runId":"r","messages":[{"role":"user","content":[{"type":"image"}]}]}`:                                     "needs a source",
		`{"threadId":"t","runId":"r","resume":[{"interruptId":"a","status":"maybe"}]}`:                                               "want resolved or cancelled",
		`{"threadId":"t","runId":"r","resume":[{"status":"resolved"}]}`:                                                              "needs an interruptId",
		`{"threadId":"t","runId":"r","resume":[{"interruptId":"a","status":"resolved"},{"interruptId":"a","status":"resolved"}]}`:    "a second time",
		`{"threadId":"t","runId":"r","tools":[{"name":""}]}`:                                                                         "tools[0]",
		`{"threadId":"t","threadId":"u","runId":"r"}`:                                                                                "is duplicated",
		`[]`: "",
		`{"threadId":"t","runId":"r","state":"` + strings.Repeat("x", agui.MaxInput) + `"}`: "at most",
	} {
		_, err := agui.ParseInput([]byte(body))
		require.ErrorContains(t, err, want, body[:min(len(body), 80)])
		var known *abi.Error
		require.ErrorAs(t, err, &known)
	}
}

func FuzzParseInput(f *testing.F) {
	f.Add(
		[]byte(
			`{"threadId":"t","runId":"r","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"resume":[{"interruptId":"a","status":"resolved"}]}`,
		),
	)
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := agui.ParseInput(b)
		if err == nil {
			require.NotEmpty(t, in.ThreadID)
			for _, m := range in.Messages {
				require.NoError(t, contract.CheckMessage(&m))
			}
		}
	})
}

// FuzzEncoder checks that the encoder sends RUN_STARTED once and opens each item before it closes the
// item. The events come in any order, since modules can drop and change them.
func FuzzEncoder(f *testing.F) {
	f.Add(
		[]byte(`{"type":"chunk","chunk":{"kind":"text","text":"a"}}`),
		[]byte(`{"type":"run_finished","finish_reason":"stop"}`),
	)
	f.Add(
		[]byte(
			`{"type":"child","event":{"type":"chunk","run":"x","chunk":{"kind":"tool_call","id":"c","name":"t","arguments":"{}"}}}`,
		),
		[]byte(`{"type":"run_paused","interrupts":[{"id":"i","reason":"why"}]}`),
	)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		enc := agui.NewEncoder(agui.Options{Internals: true, Messages: []json.RawMessage{}})
		open := map[string]bool{}
		first := true
		for _, raw := range [][]byte{a, b, a, b} {
			var e abi.Event
			if json.Unmarshal(raw, &e) != nil {
				return
			}
			for _, x := range enc.Encode(e) {
				var fields map[string]any
				require.NoError(t, json.Unmarshal(x.JSON, &fields))
				typ := fields["type"].(string)
				require.Equal(t, first, typ == "RUN_STARTED")
				first = false
				id, _ := fields["messageId"].(string)
				if call, ok := fields["toolCallId"].(string); ok {
					id = call
				}
				what, isStart := strings.CutSuffix(typ, "_START")
				switch {
				case isStart:
					require.False(t, open[what+id])
					open[what+id] = true
				case strings.HasSuffix(typ, "_CONTENT"):
					require.True(t, open[strings.TrimSuffix(typ, "_CONTENT")+id])
				case strings.HasSuffix(typ, "_END"):
					require.True(t, open[strings.TrimSuffix(typ, "_END")+id])
					delete(open, strings.TrimSuffix(typ, "_END")+id)
				}
			}
		}
	})
}

// TestRepairEvents checks that clients with Internals receive the repaired call, or the number of
// repairs.
func TestRepairEvents(t *testing.T) {
	t.Parallel()
	enc := agui.NewEncoder(agui.Options{Internals: true})
	for _, test := range []struct {
		event abi.Event
		want  string
	}{
		{
			abi.Event{Type: abi.EventRepair, Action: contract.RepairMoved, Call: &abi.Call{ID: "c", Name: "t"}},
			`{"action":"moved","toolCallId":"c","toolCallName":"t"}`,
		},
		{abi.Event{Type: abi.EventRepair, Action: contract.RepairOmitted, Value: 7}, `{"action":"omitted","value":7}`},
	} {
		out := enc.Encode(test.event)
		var last struct{ Value json.RawMessage }
		require.NoError(t, json.Unmarshal(out[len(out)-1].JSON, &last))
		require.JSONEq(t, test.want, string(last.Value))
	}
}

// TestToolErrors checks that the error of a front end's tool is kept, and is the content of a message
// that has none.
func TestToolErrors(t *testing.T) {
	t.Parallel()
	in, err := agui.ParseInput([]byte(`{"threadId":"t","runId":"r","messages":[
		{"id":"1","role":"tool","toolCallId":"a","content":"ok"},
		{"id":"2","role":"tool","toolCallId":"b","content":"no card","error":"declined"},
		{"id":"3","role":"tool","toolCallId":"c","content":"","error":"timeout"},
		{"id":"4","role":"user","content":"hi","error":"not a tool"}]}`))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"b": "declined", "c": "timeout"}, in.Errors)
	for i, want := range []string{"ok", "no card", "timeout", "hi"} {
		require.Equal(t, want, in.Messages[i].Content.String())
	}
}

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
	"github.com/agent-runner/agent-runner/internal/contract"
)

type object = map[string]any

func newHost(t *testing.T, config object) *middlewaretest.Host {
	t.Helper()
	h := middlewaretest.New(middleware.Options{Name: "trace"}, newTracer())
	require.NoError(t, h.Configure(config))
	h.Run.ID, h.Run.Agent = "run_1", "clerk"
	return h
}

// observe passes the events one at a time, wipes the module's memory between them, and returns the
// log lines with their levels.
func observe(t *testing.T, h *middlewaretest.Host, events ...abi.Event) []string {
	t.Helper()
	for _, e := range events {
		require.NoError(t, h.Wipe())
		_, err := h.Observe(abi.ObserveInput{Events: []abi.Event{e}})
		require.NoError(t, err)
	}
	var out []string
	for _, l := range h.Logs {
		out = append(out, levels[l.Level]+" "+l.Text)
	}
	return out
}

const secret = "swordfish"

// everything returns an event of each type, with a secret in all content.
func everything() []abi.Event {
	calls := abi.Message{
		Role:      abi.RoleAssistant,
		Origin:    abi.OriginModel,
		Content:   abi.Text("I see " + secret),
		ToolCalls: []abi.ToolCall{abi.NewToolCall("1", "read", `"`+secret+`"`)},
	}
	read := &abi.Call{ID: "1", Name: "read", Arguments: `{"word":"` + secret + `"}`}
	unknown := &abi.Call{ID: "call " + secret, Name: "the word is " + secret, Arguments: secret}
	refusal := abi.Assistant("not " + secret)
	refusal.Origin = abi.OriginModule + "guard"
	failed := &abi.Error{Code: abi.CodeModel, Message: "no " + secret}
	return []abi.Event{
		{Type: abi.EventRunStarted, TimeMS: 1000, Agent: "clerk", Model: "small"},
		{Type: abi.EventStepStarted, Step: 1, TimeMS: 1010},
		{
			Type:    abi.EventModelAttempt,
			Step:    1,
			TimeMS:  1020,
			Model:   "small",
			Attempt: 1,
			Error:   failed,
			DelayMS: 500,
			Next:    "big",
		},
		{Type: abi.EventMessage, Step: 1, TimeMS: 1100, Message: &calls},
		{Type: abi.EventToolCall, Step: 1, TimeMS: 1110, Call: read},
		{Type: abi.EventToolCall, Step: 1, TimeMS: 1111, Call: unknown},
		{
			Type:   abi.EventToolResult,
			Step:   1,
			TimeMS: 1112,
			Call:   unknown,
			Result: abi.ErrorResult("no tool " + secret),
			Source: "host",
		},
		{Type: abi.EventToolResult, Step: 1, TimeMS: 1150, Call: read, Result: abi.TextResult(secret), Source: "tool"},
		{
			Type:   abi.EventCustom,
			Step:   1,
			TimeMS: 1160,
			Entry:  "redact",
			Hook:   contract.HookAfterTool,
			Name:   "redacted",
			Data:   []byte(`{"what":"` + secret + `"}`),
		},
		{
			Type:   abi.EventFault,
			Step:   1,
			TimeMS: 1170,
			Entry:  "x",
			Hook:   contract.HookOnChunk,
			Stage:  "hook",
			Limit:  "fuel",
			Action: "skipped",
			Cause:  "a trap at " + secret,
			Stderr: []string{secret},
		},
		{Type: abi.EventLimit, Step: 1, TimeMS: 1180, Limit: "tool_calls", Value: 3, Action: "refused"},
		{Type: abi.EventTransfer, Step: 1, TimeMS: 1190, From: "clerk", Agent: "boss", Model: "big"},
		{Type: abi.EventStepFinished, Step: 1, TimeMS: 1200},
		{
			Type:       abi.EventRunPaused,
			Step:       1,
			TimeMS:     1210,
			Interrupts: []abi.Pending{{ID: "int_1", Reason: "may I say " + secret}},
		},
		{Type: abi.EventRunResumed, Step: 1, TimeMS: 1220, Reason: secret},
		{Type: abi.EventMessage, Step: 2, TimeMS: 1230, Message: &refusal},
		{Type: abi.EventStepStarted, Step: 3, TimeMS: 1240},
		{Type: abi.EventStepFinished, Step: 3, TimeMS: 1250},
		{
			Type:         abi.EventRunFinished,
			Step:         3,
			TimeMS:       1250,
			FinishReason: abi.RunError,
			Reason:       secret,
			StopCode:     "a " + secret,
			Error:        failed,
			Usage:        &abi.Usage{PromptTokens: 7, CompletionTokens: 2},
			Entries: []abi.EntryStats{
				{Entry: "redact", Digest: "sha256:1", Calls: 3, Fuel: 900, BytesIn: 10, BytesOut: 5, WallUS: 77},
			},
		},
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	h := newHost(t, object{"format": "text"})
	require.Equal(t, []string{
		"warn 00:00:01.020 step 1: model_attempt failed: model request.model=small attempt=1 delay_ms=500 next_model=big",
		"info 00:00:01.100 step 1: chat small, 90 ms request.model=small message.bytes=15 message.tool_calls=1",
		"warn 00:00:01.112 step 1: execute_tool _OTHER, 1 ms failed: tool_error tool.call.id=_OTHER source=host result.bytes=17",
		"info 00:00:01.150 step 1: execute_tool read, 40 ms tool.call.id=1 result.bytes=9",
		"debug 00:00:01.160 step 1: custom entry=redact hook=after_tool event=redacted",
		"error 00:00:01.170 step 1: fault failed: fault entry=x hook=on_chunk stage=hook limit=fuel action=skipped",
		"warn 00:00:01.180 step 1: limit limit=tool_calls value=3 action=refused",
		"info 00:00:01.190 step 1: transfer from=clerk agent.name=boss",
		"info 00:00:01.210 step 1: run_paused interrupts=1",
		"info 00:00:01.220 step 1: run_resumed",
		"info 00:00:01.230 step 2: message origin=module:guard message.bytes=13",
		"error 00:00:01.250 step 3: chat big, 10 ms failed: model request.model=big",
		"debug 00:00:01.250 entry entry=redact module.digest=sha256:1 calls=3 faults=0 fuel=900 bytes_in=10 bytes_out=5 wall_us=77",
		"error 00:00:01.250 step 3: invoke_agent boss, 250 ms failed: error usage.input_tokens=7 usage.output_tokens=2 response.finish_reasons=error stop_code=_OTHER error.code=model",
	}, observe(t, h, everything()...))
}

// TestOTLP checks that each line is a valid OpenTelemetry span or record, and that lines contain
// content only on request.
func TestOTLP(t *testing.T) {
	t.Parallel()
	for _, content := range []bool{false, true} {
		h := newHost(t, object{"content": content})
		spans := map[string]*traces.Span{}
		var records []*logs.LogRecord
		lines := observe(t, h, everything()...)
		for _, line := range lines {
			_, line, _ = strings.Cut(line, " ")
			var s traces.Span
			if protojson.Unmarshal([]byte(line), &s) == nil {
				spans[s.Name] = &s
				continue
			}
			var r logs.LogRecord
			require.NoError(t, protojson.Unmarshal([]byte(line), &r), line)
			records = append(records, &r)
		}
		require.Len(t, spans, 5)
		require.Len(t, records, 9)
		run := spans["invoke_agent boss"]
		require.Empty(t, run.ParentSpanId)
		require.Equal(t, traces.Status_STATUS_CODE_ERROR, run.Status.Code)
		for name, s := range spans {
			require.Equal(t, run.TraceId, s.TraceId)
			require.LessOrEqual(t, s.StartTimeUnixNano, s.EndTimeUnixNano)
			if name != run.Name {
				require.Equal(t, run.SpanId, s.ParentSpanId, name)
			}
		}
		for _, r := range records {
			require.Equal(t, run.TraceId, r.TraceId)
			require.Equal(t, run.SpanId, r.SpanId)
		}
		require.Equal(t, uint64(1110e6), spans["execute_tool read"].StartTimeUnixNano)
		require.Equal(t, traces.Span_SPAN_KIND_CLIENT, spans["chat small"].Kind)
		require.Equal(t, content, strings.Contains(strings.Join(lines, "\n"), secret))
	}
}

// TestIDs checks that IDs have OpenTelemetry's lengths and are deterministic, and that a nested run
// refers to its parent's trace and span.
func TestIDs(t *testing.T) {
	t.Parallel()
	line := func(run, parent string) (s span) {
		h := newHost(t, nil)
		h.Run.ID, h.Run.Parent = run, parent
		observe(t, h, abi.Event{Type: abi.EventRunFinished, FinishReason: abi.RunStop})
		require.NoError(t, json.Unmarshal([]byte(h.Logs[0].Text), &s))
		return s
	}
	outer, again, inner := line("run_1", ""), line("run_1", ""), line("run_2", "run_1")
	require.Equal(t, outer, again)
	require.Len(t, outer.TraceID, 32)
	require.Len(t, outer.SpanID, 16)
	require.Equal(t, outer.TraceID, inner.TraceID)
	require.Equal(t, outer.SpanID, inner.Parent)
	require.NotEqual(t, outer.SpanID, inner.SpanID)
}

// TestLongTexts checks that a line stays within maxLine bytes for long content, even if all its
// characters need escapes.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		strings.Repeat("é", 5000), strings.Repeat("\x01", 5000), strings.Repeat(`"`, 5000), strings.Repeat("\n", 5000),
	} {
		for _, format := range []string{"otlp", "text"} {
			h := newHost(t, object{"content": true, "max_content": 3000, "format": format})
			call := &abi.Call{ID: "1", Name: "read", Arguments: text}
			observe(t, h, abi.Event{Type: abi.EventToolResult, Step: 1, Call: call, Result: abi.TextResult(text)})
			line := h.Logs[0].Text
			require.LessOrEqual(t, len(line), maxLine)
			require.Greater(t, len(line), 800)
			require.NotContains(t, line, "\n")
			require.Equal(t, format == "otlp", json.Valid([]byte(line)))
		}
	}
}

func TestLargeBatches(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	events := slices.Repeat([]abi.Event{{Type: abi.EventCustom, Entry: "x", Name: "tick"}}, 1000)
	_, err := h.Observe(abi.ObserveInput{Events: events})
	require.NoError(t, err)
	total := 0
	for _, l := range h.Logs {
		total += len(l.Text)
	}
	require.LessOrEqual(t, total, 64<<10)
	require.LessOrEqual(t, len(h.Logs), 256)
	last := h.Logs[len(h.Logs)-1]
	require.Equal(t, middleware.LogWarn, last.Level)
	require.Contains(t, last.Text, "agent_runner.dropped")
}

func TestConfig(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	for want, config := range map[string]object{
		`format: "json" is not one of`:  {"format": "json"},
		`level: "trace" is not one of`:  {"level": "trace"},
		"max_content: 0 is not 1 to":    {"max_content": 0},
		"max_content: 3001 is not 1 to": {"max_content": 3001},
		"times: OpenTelemetry's lines":  {"times": false},
	} {
		require.ErrorContains(t, h.Configure(config), "config: "+want)
	}
}

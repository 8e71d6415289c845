package telemetry_test

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/telemetry"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// run runs an agent with a middleware that wraps tool calls and one whose hook panics. The agent
// calls a tool that returns an error, and a sub-agent as a tool.
func run(t *testing.T, tracer tracing.Tracer) {
	t.Helper()
	ok := &inproc.Middleware{
		WrapToolCall: func(ctx context.Context, c *hook.Call, in *abi.WrapToolCallInput) (*abi.WrapToolCallAnswer, error) {
			_, err := c.NextTool(ctx, abi.CallPatch{})
			return nil, err
		},
	}
	bad := &inproc.Middleware{
		BeforeModel: func(context.Context, *hook.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) { panic("no") },
	}
	entries := func(tr tracing.Tracer, e ...hook.Entry) *chain.Chain {
		c, err := chain.New(e...)
		require.NoError(t, err)
		return c.With(hook.Options{Tracer: tr})
	}
	tools := []tool.Tool{tool.Func(abi.Tool{Name: "find"}, func(context.Context, abi.Call) (*abi.Result, error) {
		return &abi.Result{Content: abi.Text("nothing"), IsError: true}, nil
	})}
	inner, err := agent.New(
		&agent.Options{
			Name:      "helper",
			Model:     scripted.New(scripted.Text("helped")),
			ModelName: "small",
			Chain:     entries(tracer),
		},
	)
	require.NoError(t, err)
	usage := &abi.Usage{PromptTokens: 10, CompletionTokens: 5, TotalTokens: 15}
	first := scripted.Calls(abi.NewToolCall("c1", "find", "{}"))
	first.Response.Usage = usage
	a, err := agent.New(
		&agent.Options{
			Name:      "chief",
			ModelName: "big",
			Tools:     append(tools, agent.Tool(inner, &agent.ToolOptions{Description: "helps"})),
			Model: scripted.New(
				first,
				scripted.Calls(abi.NewToolCall("c2", "helper", `{"request":"help"}`)),
				scripted.Text("done"),
			),
			Chain: entries(
				tracer,
				hook.Entry{Name: "ok", Middleware: ok},
				hook.Entry{Name: "bad", Middleware: bad, OnFault: hook.Skip},
			),
		},
	)
	require.NoError(t, err)
	for _, err := range a.Run(t.Context(), agent.Input{RunID: "run_1", Messages: []abi.Message{abi.User("go")}}) {
		require.NoError(t, err)
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	kept := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept))
	run(t, telemetry.Spans(provider.Tracer("test")))
	require.NoError(t, provider.ForceFlush(t.Context()))
	names := map[string]int{}
	var findParent, wrapID string
	for _, s := range kept.GetSpans() {
		names[s.Name]++
		switch s.Name {
		case "execute_tool find":
			findParent = s.Parent.SpanID().String()
			require.Equal(t, codes.Error, s.Status.Code)
		case "wrap_tool_call ok":
			for _, a := range s.Attributes {
				if a.Key == "gen_ai.tool.call.id" && a.Value.AsString() == "c1" {
					wrapID = s.SpanContext.SpanID().String()
				}
			}
		case "before_model bad":
			require.Equal(t, "fault", s.Status.Description)
		case "chat big":
			require.Equal(t, "client", s.SpanKind.String())
		}
	}
	require.Equal(t, map[string]int{"invoke_agent chief": 1, "invoke_agent helper": 1, "chat big": 3, "chat small": 1,
		"execute_tool find": 1, "execute_tool helper": 1, "wrap_tool_call ok": 2, "before_model bad": 3}, names)
	require.Equal(t, wrapID, findParent, "the tool is within the hook that wraps it")
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	m, err := telemetry.Metrics(r)
	require.NoError(t, err)
	run(t, m)
	families, err := r.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			name := f.GetName()
			for _, l := range s.GetLabel() {
				name += " " + l.GetValue()
			}
			switch {
			case s.GetHistogram() != nil:
				got[name] = float64(s.GetHistogram().GetSampleCount())
			case s.GetCounter() != nil:
				got[name] = s.GetCounter().GetValue()
			default:
				got[name] = s.GetGauge().GetValue()
			}
		}
	}
	require.Equal(
		t,
		map[string]float64{
			"agent_runner_runs_running":                   0,
			"agent_runner_run_seconds stop":               2,
			"agent_runner_model_seconds ok":               4,
			"agent_runner_tool_seconds ok":                1,
			"agent_runner_tool_seconds error":             1,
			"agent_runner_hook_seconds wrap_tool_call":    2,
			"agent_runner_hook_seconds before_model":      3,
			"agent_runner_hook_faults_total before_model": 3,
			"agent_runner_tokens_total input":             10,
			"agent_runner_tokens_total output":            5,
			"agent_runner_fuel_total":                     0,
		},
		got,
	)
	problems, err := testutil.GatherAndLint(r)
	require.NoError(t, err)
	require.Empty(t, problems)
	_, err = telemetry.Metrics(r)
	require.Error(t, err, "registered twice")
}

func TestTimelines(t *testing.T) {
	t.Parallel()
	var lines []*api.Timeline
	keep := telemetry.Timelines(func(_ context.Context, line *api.Timeline) { lines = append(lines, line) })
	run(t, telemetry.Join(nil, keep))
	require.Len(t, lines, 1, "the sub-agent's run has no line of its own")
	line := lines[0]
	require.Equal(t, "run_1", line.Run)
	byID := map[int]api.Span{}
	depth := map[string]int{}
	for _, s := range line.Spans {
		byID[s.ID] = s
		depth[s.Kind]++
		require.GreaterOrEqual(t, s.TookUS, int64(0))
		if p, ok := byID[s.Parent]; ok {
			require.LessOrEqual(t, p.StartUS, s.StartUS)
			require.GreaterOrEqual(t, p.StartUS+p.TookUS+1, s.StartUS+s.TookUS)
		} else {
			require.Zero(t, s.Parent)
		}
		if s.Agent == "helper" {
			require.NotEmpty(t, s.Run)
		}
	}
	require.Equal(t, map[string]int{"run": 2, "model": 4, "tool": 2, "hook": 5}, depth)
	require.Nil(t, telemetry.Join(nil, nil))
}

// TestTimelinesBoundIDs checks that a timeline truncates the id of a tool call, which a model or
// a module chose, to contract.MaxName bytes.
func TestTimelinesBoundIDs(t *testing.T) {
	t.Parallel()
	var line *api.Timeline
	keep := telemetry.Timelines(func(_ context.Context, l *api.Timeline) { line = l })
	ctx, end := keep.Start(t.Context(), tracing.Operation{Kind: tracing.OperationRun})
	_, endTool := keep.Start(
		ctx,
		tracing.Operation{Kind: tracing.OperationTool, Call: &abi.Call{ID: strings.Repeat("i", 1<<20), Name: "t"}},
	)
	endTool(tracing.Outcome{})
	end(tracing.Outcome{})
	require.Len(t, line.Spans[1].CallID, contract.MaxName)
}

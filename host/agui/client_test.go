package agui_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/agui"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/npmtest"
)

// A server runs an agent for AG-UI's client and stores the states of paused runs.
type server struct {
	agent *agent.Agent
	mu    sync.Mutex
	waits map[string]*runlog.State // paused runs by thread
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, agui.MaxInput+1))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	in, err := agui.ParseInput(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	enc := agui.NewEncoder(agui.Options{Thread: in.ThreadID, Run: in.RunID, Messages: in.Raw})
	events := s.agent.RunFor(r.Context(), agent.Input{Messages: in.Messages}, enc)
	if in.Answers != nil {
		s.mu.Lock()
		state := s.waits[in.ThreadID]
		s.mu.Unlock()
		if events, err = s.agent.ResumeFor(r.Context(), state, in.Answers, enc); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for e, err := range events {
		var paused *agent.PausedError
		if p, ok := err.(*agent.PausedError); ok { //nolint:errorlint // the error is not wrapped
			paused = p
			s.mu.Lock()
			s.waits[in.ThreadID] = paused.State
			s.mu.Unlock()
		}
		for _, b := range e.Encoded {
			fmt.Fprintf(w, "data: %s\n\n", b)
		}
	}
}

// said holds the client's view of one run.
type said struct {
	Events   []map[string]any `json:"events"`
	Messages []struct {
		ID, Role   string
		Content    any
		ToolCallID string
		ToolCalls  []struct {
			Function struct{ Name, Arguments string }
		}
	} `json:"messages"`
	Failed  string `json:"failed"`
	Pending []struct {
		ID, Reason, Message, ToolCallID string
	} `json:"pending"`
}

func (s *said) types() (out []string) {
	for _, e := range s.Events {
		out = append(out, e["type"].(string))
	}
	return out
}

func (s *said) texts() (out []string) {
	for _, m := range s.Messages {
		line := m.Role + ": "
		if m.Content != nil {
			line += fmt.Sprint(m.Content)
		}
		for _, c := range m.ToolCalls {
			line += fmt.Sprintf("[%s %s]", c.Function.Name, c.Function.Arguments)
		}
		out = append(out, strings.TrimSpace(line))
	}
	return out
}

// follow serves an agent with the options o, runs steps with the official client, and returns the
// client's view of each run. steps is a JSON array of messages and answers to interrupts.
func follow(t *testing.T, o agent.Options, steps string) []said {
	t.Helper()
	a, err := agent.New(&o)
	require.NoError(t, err)
	srv := httptest.NewServer(&server{agent: a, waits: map[string]*runlog.State{}})
	defer srv.Close()
	var all []said
	for line := range strings.Lines(npmtest.Script(t, "testdata/client.mjs", "AGUI_URL="+srv.URL, "AGUI_STEPS="+steps)) {
		var s said
		require.NoError(t, json.Unmarshal([]byte(line), &s), line)
		all = append(all, s)
	}
	return all
}

func weather() tool.Tool {
	return tool.Func(abi.Tool{Name: "weather"}, func(_ context.Context, c abi.Call) (*abi.Result, error) {
		if strings.Contains(c.Arguments, "nowhere") {
			return nil, fmt.Errorf("no such place")
		}
		return abi.TextResult("sunny"), nil
	})
}

func entries(t *testing.T, n *inproc.Middleware) *chain.Chain {
	t.Helper()
	c, err := chain.New(hook.Entry{Name: "n", Middleware: n})
	require.NoError(t, err)
	return c
}

func TestClientFollowsARun(t *testing.T) {
	t.Parallel()
	reasoned := abi.Assistant("It is sunny.")
	reasoned.ReasoningContent = "easy"
	runs := follow(t, agent.Options{
		Model: scripted.New(
			scripted.Reply{
				Response: &abi.Response{Message: abi.Message{Role: abi.RoleAssistant, Content: abi.Text("Let me look."),
					ToolCalls: []abi.ToolCall{
						abi.NewToolCall("c1", "weather", `{"city":"Berlin"}`),
						abi.NewToolCall("c2", "weather", `{"city":"nowhere"}`),
					}}, FinishReason: abi.FinishToolCalls},
				Size: 4,
			},
			scripted.Reply{Response: &abi.Response{Message: reasoned, FinishReason: abi.FinishStop}, Size: 5},
			scripted.Text("You are welcome."),
		),
		Tools: []tool.Tool{weather()},
	}, `[{"say":"How is the weather?"},{"say":"Thanks"}]`)
	require.Len(t, runs, 2)
	first := runs[0]
	require.Empty(t, first.Failed)
	require.Equal(t, []string{
		"user: How is the weather?",
		`assistant: Let me look.[weather {"city":"Berlin"}][weather {"city":"nowhere"}]`,
		"tool: sunny", "tool: no such place",
		"reasoning: easy", "assistant: It is sunny.",
	}, sorted(first.texts()))
	types := first.types()
	require.Equal(t, "RUN_STARTED", types[0])
	require.Equal(t, "RUN_FINISHED", types[len(types)-1])
	require.Greater(t, strings.Count(strings.Join(types, " "), "TEXT_MESSAGE_CONTENT"), 3, "text comes in pieces")
	require.Empty(t, runs[1].Failed)
	require.Equal(t, "assistant: You are welcome.", runs[1].texts()[len(runs[1].texts())-1])
}

// sorted sorts the results of parallel calls, which arrive in any order.
func sorted(lines []string) []string {
	for i := range lines {
		if i > 0 && lines[i] == "tool: sunny" && strings.HasPrefix(lines[i-1], "tool: no") {
			lines[i-1], lines[i] = lines[i], lines[i-1]
		}
	}
	return lines
}

func TestClientIsToldWhatIsRight(t *testing.T) {
	t.Parallel()
	runs := follow(t, agent.Options{
		Model: scripted.New(
			scripted.Reply{
				Response: &abi.Response{Message: abi.Assistant("the number is 1234"), FinishReason: abi.FinishStop},
				Size:     3,
			},
		),
		Chain: entries(
			t,
			&inproc.Middleware{
				AfterModelRewriteState: func(
					_ context.Context, c *hook.Call, _ *abi.AfterModelRewriteStateInput,
				) (*abi.AfterModelRewriteStateAnswer, error) {
					n := c.List(0).Len()
					last := c.List(0).At(n - 1)
					last.Content = abi.Text("the number is secret")
					return &abi.AfterModelRewriteStateAnswer{
						Messages: abi.ListPatch{Splice: []abi.Splice{{At: n - 1, Remove: 1, Insert: []abi.Message{last}}}},
					}, nil
				},
			},
		),
	}, `[{"say":"Which number?"}]`)
	require.Empty(t, runs[0].Failed)
	require.Equal(t, []string{"user: Which number?", "assistant: the number is secret"}, runs[0].texts())
	require.Contains(t, runs[0].types(), "MESSAGES_SNAPSHOT")
}

func TestClientAnswersAnInterrupt(t *testing.T) {
	t.Parallel()
	gate := &inproc.Middleware{
		GateTool: func(context.Context, *hook.Call, *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			return &abi.GateToolAnswer{Decision: "ask", Message: "look up the weather?"}, nil
		},
	}
	for answer, want := range map[string]string{
		`{"decision":"approve"}`:                      "tool: sunny",
		`{"decision":"deny","message":"not now"}`:     "not now",
		`{"decision":"edit","arguments":"{\"a\":1}"}`: "tool: sunny",
	} {
		runs := follow(t, agent.Options{
			Model: scripted.New(scripted.Calls(abi.NewToolCall("c1", "weather", `{}`)), scripted.Text("done")),
			Tools: []tool.Tool{weather()}, Chain: entries(t, gate),
		}, `[{"say":"Weather?"},{"answer":`+answer+`}]`)
		require.Len(t, runs, 2)
		require.Empty(t, runs[0].Failed)
		require.Len(t, runs[0].Pending, 1)
		require.Equal(t, "tool_call_approval", runs[0].Pending[0].Reason)
		require.Equal(t, "look up the weather?", runs[0].Pending[0].Message)
		require.Equal(t, "c1", runs[0].Pending[0].ToolCallID)
		require.Empty(t, runs[1].Failed, answer)
		text := strings.Join(runs[1].texts(), "\n")
		require.Contains(t, text, want)
		require.Contains(t, text, "assistant: done")
	}
}

func TestClientHearsOfAnError(t *testing.T) {
	t.Parallel()
	runs := follow(t, agent.Options{
		Model: scripted.New(scripted.Text("x")),
		Chain: entries(
			t,
			&inproc.Middleware{
				BeforeModel: func(context.Context, *hook.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
					return &abi.BeforeModelAnswer{Control: abi.Control{Stop: &abi.Stop{Reason: "out of budget"}}}, nil
				},
			},
		),
	}, `[{"say":"hi"}]`)
	require.Equal(t, "out of budget", runs[0].Failed)
	types := runs[0].types()
	require.Equal(t, "RUN_ERROR", types[len(types)-1])
}

func TestModulesTranslate(t *testing.T) {
	t.Parallel()
	runs := follow(t, agent.Options{
		Model: scripted.New(scripted.Calls(abi.NewToolCall("c1", "weather", `{}`)), scripted.Text("done")),
		Tools: []tool.Tool{weather()},
		Chain: entries(t, &inproc.Middleware{
			TranslateBefore: func(_ context.Context, _ *hook.Call, in *abi.TranslateInput) (*abi.TranslateAnswer, error) {
				var e abi.Event
				if err := json.Unmarshal(in.Event, &e); err != nil {
					return nil, err
				}
				return &abi.TranslateAnswer{
					Drop: e.Type == abi.EventToolCall || e.Type == abi.EventStepStarted || e.Type == abi.EventRunStarted,
				}, nil
			},
			TranslateAfter: func(_ context.Context, _ *hook.Call, in *abi.TranslateInput) (*abi.TranslateAnswer, error) {
				if in.Protocol != "ag-ui" {
					return nil, fmt.Errorf("protocol is %s", in.Protocol)
				}
				changed := strings.ReplaceAll(string(in.Event), `"sunny"`, `"rainy"`)
				return &abi.TranslateAnswer{Event: json.RawMessage(changed)}, nil
			},
		}),
	}, `[{"say":"hi"}]`)
	require.Empty(t, runs[0].Failed, "dropped events do not break the protocol")
	require.Contains(t, runs[0].texts(), "tool: rainy")
}

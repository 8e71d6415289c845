package agentmodel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/npmtest"
	"github.com/agent-runner/agent-runner/internal/server/agentmodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A server runs one agent and remembers its paused runs by id.
type server struct {
	agent *agent.Agent
	mu    sync.Mutex
	waits map[string]*runlog.State
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err == nil {
		err = s.serve(w, r, b)
	}
	var problem *agentmodel.Error
	switch {
	case err == nil:
	case errors.As(err, &problem):
		writeError(w, problem)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// writeError responds with an error in OpenAI's format.
func writeError(w http.ResponseWriter, e *agentmodel.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"error": map[string]any{"message": e.Message, "type": e.Type(), "param": e.Param, "code": e.Code},
	})
}

// serve runs the agent for the request in b, or resumes the run that the request names, and writes
// the completion.
func (s *server) serve(w http.ResponseWriter, r *http.Request, b []byte) error {
	q, err := agentmodel.ParseRequest(agentmodel.Chat(), b)
	if err != nil {
		return err
	}
	var tools []tool.Tool
	for _, d := range q.Tools {
		tools = append(tools, tool.ByClient(d))
	}
	a, err := s.agent.WithTools(tools...)
	if err != nil {
		return err
	}
	events := a.Run(r.Context(), agent.Input{Messages: q.Messages})
	if q.Run != "" {
		s.mu.Lock()
		state := s.waits[q.Run]
		s.mu.Unlock()
		if events, err = a.Resume(r.Context(), state, q.Answers); err != nil {
			return &agentmodel.Error{Status: http.StatusConflict, Message: err.Error()}
		}
	}
	return agentmodel.Serve(w, r, q, s.recording(events), hold, timeouts)
}

func (s *server) recording(events iter.Seq2[abi.Event, error]) iter.Seq2[abi.Event, error] {
	return func(yield func(abi.Event, error) bool) {
		for e, err := range events {
			var paused *agent.PausedError
			if errors.As(err, &paused) {
				s.mu.Lock()
				s.waits[paused.State.ID] = paused.State
				s.mu.Unlock()
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// said is the client's view of one response.
type said struct {
	Deltas  []string `json:"deltas"`
	ID      string   `json:"id"`
	Model   string   `json:"model"`
	Message struct {
		Content   *string        `json:"content"`
		Refusal   *string        `json:"refusal"`
		ToolCalls []abi.ToolCall `json:"tool_calls"`
	} `json:"message"`
	Finish string    `json:"finish_reason"`
	Usage  abi.Usage `json:"usage"`
	Extra  struct {
		Run        string        `json:"run"`
		Interrupts []abi.Pending `json:"interrupts"`
	} `json:"extra"`
	Failed string `json:"failed"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Type   string `json:"type"`
}

func serve(t *testing.T, o agent.Options) *httptest.Server {
	t.Helper()
	a, err := agent.New(&o)
	require.NoError(t, err)
	srv := httptest.NewServer(&server{agent: a, waits: map[string]*runlog.State{}})
	t.Cleanup(srv.Close)
	return srv
}

// talk serves an agent and sends requests to it with OpenAI's official JavaScript client. steps is a
// JSON list of the requests. talk returns the client's view of each response.
func talk(t *testing.T, o agent.Options, steps string) []said {
	t.Helper()
	srv := serve(t, o)
	var all []said
	for line := range strings.Lines(npmtest.Script(t, "testdata/client.mjs",
		"OPENAI_URL="+srv.URL+"/v1", "OPENAI_STEPS="+steps)) {
		var s said
		require.NoError(t, json.Unmarshal([]byte(line), &s), line)
		all = append(all, s)
	}
	return all
}

func look() tool.Tool {
	return tool.Func(
		abi.Tool{Name: "look"},
		func(context.Context, abi.Call) (*abi.Result, error) { return abi.TextResult("sunny"), nil },
	)
}

// TestAnswers checks that responses contain the agent's text, streamed or whole, and not the calls
// of the agent's own tools.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{"true", "false"} {
		first := scripted.Message(
			abi.Message{
				Role:      abi.RoleAssistant,
				Content:   abi.Text("Let me look."),
				ToolCalls: []abi.ToolCall{abi.NewToolCall("1", "look", "{}")},
			},
		)
		last := scripted.Text("It is sunny.")
		last.Size, last.Response.Usage = 3, &abi.Usage{PromptTokens: 7, CompletionTokens: 2, TotalTokens: 9}
		got := talk(t, agent.Options{Model: scripted.New(first, last), Tools: []tool.Tool{look()}},
			`[{"stream":`+stream+`,"messages":[{"role":"user","content":"How is the weather?"}],"temperature":0.3}]`)
		require.Len(t, got, 1)
		s := got[0]
		require.Empty(t, s.Failed)
		require.Equal(t, "Let me look.\n\nIt is sunny.", *s.Message.Content)
		require.Empty(t, s.Message.ToolCalls)
		require.Equal(t, "stop", s.Finish)
		require.Equal(t, "agent", s.Model)
		require.Equal(t, int64(9), s.Usage.TotalTokens)
		require.True(t, strings.HasPrefix(s.ID, "chatcmpl-run_"), s.ID)
		if stream == "true" {
			require.Greater(t, len(s.Deltas), 4)
			require.Equal(t, *s.Message.Content, strings.Join(s.Deltas, ""))
		}
	}
}

// TestClientTools checks that the client runs its own tools during one run of the agent.
func TestClientTools(t *testing.T) {
	t.Parallel()
	const tools = `"tools":[{"type":"function","function":{"name":"show","parameters":{"type":"object"}}}]`
	for _, stream := range []string{"true", "false"} {
		m := scripted.New(
			scripted.Calls(
				abi.NewToolCall("1", "look", "{}"),
				abi.NewToolCall("2", "show", `{"a":1}`),
				abi.NewToolCall("3", "show", `{"a":2}`),
			),
			scripted.Text("Shown."),
		)
		got := talk(
			t,
			agent.Options{Model: m, Tools: []tool.Tool{look()}},
			`[{"stream":`+stream+`,"messages":[{"role":"user","content":"Show it"}],`+tools+`},{"stream":`+stream+`,"results":["seen","not seen"],`+tools+`}]`,
		)
		require.Len(t, got, 2)
		require.Empty(t, got[0].Failed)
		require.Equal(t, "tool_calls", got[0].Finish)
		require.Len(t, got[0].Message.ToolCalls, 2, "the agent's own tool calls are hidden")
		require.Equal(t, `{"a":2}`, got[0].Message.ToolCalls[1].Function.Arguments)
		require.Empty(t, got[1].Failed)
		require.Equal(t, "Shown.", *got[1].Message.Content)
		require.Equal(t, got[0].ID, got[1].ID, "the same run")
		var texts []string
		for _, m := range m.Requests()[1].Messages {
			texts = append(texts, m.Role+":"+m.Content.String())
		}
		require.Equal(t, []string{"user:Show it", "assistant:", "tool:sunny", "tool:seen", "tool:not seen"}, texts)
	}
}

// TestEndings checks how completions, streamed and whole, report runs that are stopped, paused,
// failed or limited.
func TestEndings(t *testing.T) {
	t.Parallel()
	stop := &inproc.Middleware{
		AfterModel: func(context.Context, *hook.Call, *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			return &abi.AfterModelAnswer{Control: abi.Control{Stop: &abi.Stop{Reason: "not about that"}}}, nil
		},
	}
	gate := &inproc.Middleware{
		GateTool: func(context.Context, *hook.Call, *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			return &abi.GateToolAnswer{Decision: abi.DecideAsk, Message: "look outside?"}, nil
		},
	}
	lost := &inproc.Middleware{
		BeforeModelRewriteState: func(
			context.Context, *hook.Call, *abi.BeforeModelRewriteStateInput,
		) (*abi.BeforeModelRewriteStateAnswer, error) {
			return nil, &abi.Error{Code: abi.CodeUnavailable, Message: "the weather is not there"}
		},
	}
	entries := func(n *inproc.Middleware) *chain.Chain {
		c, err := chain.New(hook.Entry{Name: "n", Middleware: n})
		require.NoError(t, err)
		return c
	}
	for _, tc := range []struct {
		name  string
		reply scripted.Reply
		o     agent.Options
		want  func(t *testing.T, s said)
	}{
		{"stopped by a module", scripted.Text("x"), agent.Options{Chain: entries(stop)}, func(t *testing.T, s said) {
			require.Equal(t, "content_filter", s.Finish)
			require.Equal(t, "not about that", *s.Message.Refusal)
		}},
		{"waits for a person", scripted.Calls(abi.NewToolCall("1", "look", "{}")), agent.Options{Tools: []tool.Tool{look()}, Chain: entries(gate)}, func(t *testing.T, s said) {
			require.Equal(t, "stop", s.Finish)
			require.Equal(t, "(The run waits for an answer: look outside?)", *s.Message.Content)
		}},
		{"the model fails", scripted.Reply{Err: &model.Error{Code: abi.CodeModel, Message: "overloaded"}}, agent.Options{}, func(t *testing.T, s said) {
			require.Contains(t, s.Failed, "the model that the agent asks failed: it answered with an error, or broke off; run run_")
			require.NotContains(t, s.Failed, "overloaded", "the model's message is only in the run")
			require.Equal(t, "model", s.Code)
		}},
		{"the model fails with a status", scripted.Reply{Err: &model.Error{Code: abi.CodeModel, Status: 503, Message: "https://inside answered 503: sk-secret"}}, agent.Options{}, func(t *testing.T, s said) {
			require.Contains(t, s.Failed, "failed: it answered 503 Service Unavailable; run ")
			require.NotContains(t, s.Failed, "inside")
			require.Equal(t, "model", s.Code)
		}},
		{"the model is not reached", scripted.Reply{Err: &model.Error{Code: abi.CodeUnavailable, Message: "cannot connect to http://inside"}}, agent.Options{}, func(t *testing.T, s said) {
			require.Contains(t, s.Failed, "failed: it was not reached; run ")
			require.NotContains(t, s.Failed, "inside")
			require.Equal(t, "unavailable", s.Code)
		}},
		{"a module reaches nothing", scripted.Text("x"), agent.Options{Chain: entries(lost)}, func(t *testing.T, s said) {
			require.Contains(t, s.Failed, "the weather is not there")
			require.Equal(t, "unavailable", s.Code)
		}},
		{"too many steps", scripted.Calls(abi.NewToolCall("1", "look", "{}")), agent.Options{Tools: []tool.Tool{look()}, MaxSteps: 1}, func(t *testing.T, s said) {
			require.Equal(t, "max_steps", s.Code)
		}},
		{"an answer at the limit", scripted.Message(abi.Message{Role: abi.RoleAssistant, Content: abi.Text("so far"), ToolCalls: []abi.ToolCall{abi.NewToolCall("1", "look", "{}")}}), agent.Options{Tools: []tool.Tool{look()}, MaxSteps: 1, Limits: agent.Limits{OnLimit: agent.LimitEnd}}, func(t *testing.T, s said) {
			require.Equal(t, "length", s.Finish)
			require.Equal(t, "so far", *s.Message.Content)
		}},
	} {
		for _, stream := range []string{"true", "false"} {
			t.Run(tc.name+" "+stream, func(t *testing.T) {
				t.Parallel()
				o := tc.o
				o.Model = scripted.New(tc.reply)
				got := talk(t, o, `[{"stream":`+stream+`,"messages":[{"role":"user","content":"hi"}]}]`)
				tc.want(t, got[0])
			})
		}
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	srv := serve(t, agent.Options{Model: scripted.New()})
	for body, want := range map[string]string{
		`{`:               "the request is not valid",
		`{"messages":[]}`: "model must be the name",
		`{"model":"a"}`:   "messages must be an array",
		`{"model":"a","messages":[{"role":"robot","content":"x"}]}`:                                                                                                                                `role`,
		`{"model":"a","messages":[{"role":"user","content":"x"}],"n":2}`:                                                                                                                           "n must be 1",
		`{"model":"a","messages":[{"role":"user","content":"x"}],"tool_choice":"required"}`:                                                                                                        "tool_choice",
		`{"model":"a","messages":[{"role":"user","content":"x"}],"modalities":["text","audio"]}`:                                                                                                   "modalities",
		`{"model":"a","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"a b"}}]}`:                                                                         "tools[0]",
		`{"model":"a","messages":[{"role":"user","content":"x"},{"role":"tool","tool_call_id":"call_run_1.int_1","content":"a"},{"role":"tool","tool_call_id":"call_run_2.int_1","content":"a"}]}`: "several runs",
	} {
		res, err := http.Post(srv.URL, "application/json", strings.NewReader(body))
		require.NoError(t, err)
		b, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusBadRequest, res.StatusCode, body)
		require.Contains(t, string(b), want)
		require.Contains(t, string(b), "invalid_request_error")
	}
}

// TestReplaced checks that a client receives a correction if the final text differs from the
// streamed text.
func TestReplaced(t *testing.T) {
	t.Parallel()
	n := &inproc.Middleware{
		AfterModelRewriteState: func(
			_ context.Context, c *hook.Call, _ *abi.AfterModelRewriteStateInput,
		) (*abi.AfterModelRewriteStateAnswer, error) {
			last := c.List(0).At(c.List(0).Len() - 1)
			last.Content = abi.Text("the number is secret")
			return &abi.AfterModelRewriteStateAnswer{
				Messages: abi.ListPatch{Splice: []abi.Splice{{At: c.List(0).Len() - 1, Remove: 1, Insert: []abi.Message{last}}}},
			}, nil
		},
	}
	c, err := chain.New(hook.Entry{Name: "n", Middleware: n})
	require.NoError(t, err)
	m := func() agent.Options {
		return agent.Options{Model: scripted.New(scripted.Text("the number is 1234")), Chain: c}
	}
	res, err := http.Post(
		serve(t, m()).URL,
		"application/json",
		strings.NewReader(`{"model":"a","stream":true,"messages":[{"role":"user","content":"x"}]}`),
	)
	require.NoError(t, err)
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Contains(t, string(b), `"replaced":"the number is secret"`)
	require.True(t, strings.HasSuffix(string(b), "data: [DONE]\n\n"))
	res, err = http.Post(
		serve(t, m()).URL,
		"application/json",
		strings.NewReader(`{"model":"a","messages":[{"role":"user","content":"x"}]}`),
	)
	require.NoError(t, err)
	b, err = io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Contains(t, string(b), `"content":"the number is secret"`)
	require.NotContains(t, string(b), "1234")
}

var timeouts = agentmodel.Timeouts{Response: 2 * time.Minute, Part: 30 * time.Second}

// hold is a Hold that does not wait.
func hold(context.Context, int, func(context.Context, <-chan struct{}) bool) error { return nil }

// TestFullResponse checks the response that gets no room to hold a completion in memory. A whole
// completion fails with an error that names the run and tells the client not to retry. A stream ends
// with an error.
func TestFullResponse(t *testing.T) {
	t.Parallel()
	never := func(ctx context.Context, _ int, wait func(context.Context, <-chan struct{}) bool) error {
		wait(ctx, nil)
		return context.Cause(ctx)
	}
	events := func(yield func(abi.Event, error) bool) {
		_ = yield(
			abi.Event{Type: abi.EventChunk, Run: "run_1", Chunk: &abi.Chunk{Kind: abi.ChunkText, Text: "hello"}},
			nil,
		) &&
			yield(abi.Event{Type: abi.EventRunFinished, Run: "run_1", FinishReason: "stop"}, nil)
	}
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream ", stream), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q, err := agentmodel.ParseRequest(agentmodel.Chat(),
					fmt.Appendf(nil, `{"model":"x","stream":%v,"messages":[{"role":"user","content":"hi"}]}`, stream),
				)
				require.NoError(t, err)
				w := httptest.NewRecorder()
				err = agentmodel.Serve(w, httptest.NewRequestWithContext(t.Context(), "POST", "/", nil), q, events, never, timeouts)
				if !stream {
					var full *agentmodel.Error
					require.ErrorAs(t, err, &full)
					require.Equal(t, 503, full.Status)
					require.Contains(t, full.Message, "run_1")
					require.Equal(t, http.Header{"X-Should-Retry": {"false"}}, full.Header)
					return
				}
				require.NoError(t, err)
				body := w.Body.String()
				require.Contains(t, body, ": still here")
				require.Contains(t, body, `"code":"response_bytes"`)
				require.True(t, strings.HasSuffix(body, "data: [DONE]\n\n"), "%s", body)
			})
		})
	}
}

// A deadlineRecorder is a response that records the time until its write deadline when it is set.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	left time.Duration
}

func (d *deadlineRecorder) SetWriteDeadline(t time.Time) error {
	d.left = time.Until(t)
	return nil
}

// TestDeadlineAfterALongRun checks that a client has timeouts.Response to read the completion or
// the error, even if the run took longer than that.
func TestDeadlineAfterALongRun(t *testing.T) {
	t.Parallel()
	for reason, fails := range map[string]bool{abi.RunStop: false, abi.RunTimeout: true} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q, err := agentmodel.ParseRequest(
					agentmodel.Chat(),
					[]byte(`{"model":"x","messages":[{"role":"user","content":"hi"}]}`),
				)
				require.NoError(t, err)
				events := func(yield func(abi.Event, error) bool) {
					time.Sleep(10 * timeouts.Response)
					e := abi.Event{Type: abi.EventRunFinished, Run: "run_1", FinishReason: reason}
					if fails {
						e.Error = &abi.Error{Message: "too late"}
					}
					yield(e, nil)
				}
				w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
				r := httptest.NewRequestWithContext(t.Context(), "POST", "/", nil)
				err = agentmodel.Serve(w, r, q, events, hold, timeouts)
				require.Equal(t, fails, err != nil)
				require.Equal(t, timeouts.Response, w.left)
			})
		})
	}
}

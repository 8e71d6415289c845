package host_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/cassette"
	"github.com/agent-runner/agent-runner/host/model/messages"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/host/tool/builtin"
)

const thinking = `{"type":"thinking","thinking":"Let me compute.","signature":"c2ln"}`

// An anthropic is an endpoint with the Messages API whose model thinks, calls the calculator, and
// answers once it has the result.
type anthropic struct {
	mu      sync.Mutex
	bodies  []string
	headers []http.Header
}

func (a *anthropic) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.bodies, a.headers = append(a.bodies, string(b)), append(a.headers, r.Header)
	a.mu.Unlock()
	blocks := []string{
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me compute."}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"One moment."}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t1","name":"calculator","input":{}}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"expression\":\"6*7\"}"}}`,
		`{"type":"content_block_stop","index":2}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}`,
	}
	if strings.Contains(string(b), "tool_result") {
		blocks = []string{
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"It is 42."}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`,
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	start := `{"type":"message_start","message":{"role":"assistant","content":[],"usage":{"input_tokens":1}}}`
	for _, e := range append(append([]string{start}, blocks...), `{"type":"message_stop"}`) {
		_, _ = io.WriteString(w, "data: "+e+"\n\n")
	}
}

// TestThinkingReturns checks that an agent sends signed thinking back unchanged and before the text
// of its message, even if a module changes the text in chunks.
func TestThinkingReturns(t *testing.T) {
	t.Parallel()
	loud := &native.Middleware{
		OnChunk: func(_ context.Context, _ *native.Call, in *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
			out := append([]abi.Chunk{}, in.Chunks...)
			for i := range out {
				if out[i].Kind == abi.ChunkText {
					out[i].Text = strings.ToUpper(out[i].Text)
				}
			}
			return &abi.OnChunkAnswer{Chunks: out}, nil
		},
	}
	for name, tc := range map[string]struct {
		middlewares []host.Middleware
		text        string
	}{
		"unchanged": {nil, "One moment."},
		"changed":   {[]host.Middleware{{Name: "loud", Native: loud}}, "ONE MOMENT."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := &anthropic{}
			s := httptest.NewServer(u)
			defer s.Close()
			m, err := messages.New(&model.ClientOptions{BaseURL: s.URL})
			require.NoError(t, err)
			defer m.Close()
			tools, err := builtin.Set(&builtin.Options{Tools: []string{"calculator"}})
			require.NoError(t, err)
			a, err := newHost(t).NewAgent(t.Context(), &host.AgentOptions{
				Model: m, ModelName: "m", Tools: tools, Middlewares: tc.middlewares,
			})
			require.NoError(t, err)
			defer a.Close()
			var reasoning, answer string
			for e, err := range a.Run(t.Context(), host.Input{Messages: []abi.Message{abi.User("6*7?")}}) {
				require.NoError(t, err)
				if e.Type == abi.EventChunk && e.Chunk.Kind == abi.ChunkReasoning {
					reasoning += e.Chunk.Text
				}
				if e.Type == abi.EventRunFinished {
					answer = e.Message.Content.String()
				}
			}
			require.Equal(t, "it is 42.", strings.ToLower(answer))
			require.Equal(t, "Let me compute.", reasoning)
			require.Len(t, u.bodies, 2)
			require.Contains(t, u.bodies[1], `{"role":"assistant","content":[`+thinking+`,{"type":"text","text":"`+tc.text+`"},`+
				`{"type":"tool_use","id":"t1","name":"calculator","input":{"expression":"6*7"}}]},`+
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"42"}]}`)
		})
	}
}

// TestProviders checks that a file's model and its fallbacks use the APIs and the keys of their providers.
func TestProviders(t *testing.T) {
	t.Parallel()
	u := &anthropic{}
	first := httptest.NewServer(u)
	defer first.Close()
	var mu sync.Mutex
	var asked []string
	second := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path+" "+r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"))
		w.WriteHeader(503)
	}))
	defer second.Close()
	f := load(t, `
model:
  name: a
  provider: responses
  retries: 0
  fallbacks:
    - {name: b}
    - {name: c, provider: openai}
    - {name: d, provider: messages, base_url: $SECOND}
    - {name: e, provider: messages}
tools: {builtin: [calculator]}
`, "$SECOND", second.URL)
	a, err := newHost(t).NewAgentFromFile(t.Context(), f, &host.FileOptions{Getenv: env(map[string]string{
		"OPENAI_API_KEY": "one", "OPENAI_BASE_URL": second.URL + "/v1",
		"ANTHROPIC_API_KEY": "two", "ANTHROPIC_BASE_URL": first.URL,
	})})
	require.NoError(t, err)
	defer a.Close()
	var answer *abi.Message
	for e, err := range a.Run(t.Context(), host.Input{Messages: []abi.Message{abi.User("6*7?")}}) {
		require.NoError(t, err)
		answer = e.Message
	}
	require.Equal(t, "It is 42.", answer.Content.String())
	require.Equal(t, []string{"/v1/responses Bearer one", "/v1/responses Bearer one", "/v1/chat/completions Bearer one",
		"/v1/messages "}, asked[:4])
	require.Equal(t, "two", u.headers[0].Get("X-Api-Key"))
	require.Contains(t, u.bodies[0], `"model":"e"`)
}

// TestRecordedThinking checks that a recording of a run with signed thinking replays the run.
func TestRecordedThinking(t *testing.T) {
	t.Parallel()
	u := &anthropic{}
	s := httptest.NewServer(u)
	defer s.Close()
	path := filepath.Join(t.TempDir(), "recording.json")
	f := load(t, "model: {name: m, provider: messages, base_url: $URL}\ntools: {builtin: [calculator]}\n", "$URL", s.URL)
	run := func(o *host.FileOptions) []abi.Event {
		o.Getenv = env(nil)
		a, err := newHost(t).NewAgentFromFile(t.Context(), f, o)
		require.NoError(t, err)
		defer a.Close()
		var out []abi.Event
		for e, err := range a.Run(t.Context(), host.Input{Messages: []abi.Message{abi.User("6*7?")}}) {
			require.NoError(t, err)
			if e.Type == abi.EventMessage {
				out = append(out, e)
			}
		}
		return out
	}
	recorded := run(&host.FileOptions{WrapModel: func(m model.Model) (model.Model, error) {
		return cassette.NewRecorder(path, m)
	}})
	tape, err := cassette.Load(path)
	require.NoError(t, err)
	replayed := run(&host.FileOptions{Model: tape.Replay()})
	require.Len(t, u.bodies, 2)
	require.NotEmpty(t, recorded)
	require.Len(t, replayed, len(recorded))
	for i := range recorded {
		require.Equal(t, recorded[i].Message.Content, replayed[i].Message.Content)
	}
	b, err := recorded[0].Message.MarshalJSON()
	require.NoError(t, err)
	require.Contains(t, string(b), thinking)
}

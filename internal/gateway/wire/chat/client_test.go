package chat

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
	"github.com/agent-runner/agent-runner/internal/npmtest"
)

// TestClient checks that OpenAI's official client and the codec read the same answers and errors from the clients'
// streams in testdata/streams.
func TestClient(t *testing.T) {
	t.Parallel()
	streams := map[string]string{}
	var names []string
	files, err := filepath.Glob("testdata/streams/*.txtar")
	require.NoError(t, err)
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		require.NoError(t, err)
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		if strings.HasPrefix(name, "custom-") {
			continue // this client does not read streamed calls of custom tools
		}
		names = append(names, name)
		streams["/"+name+"/chat/completions"] = string(a.Files[2].Data)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text, ok := streams[r.URL.Path]; ok {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(text))
			return
		}
		status, body := Protocol{}.Error(wire.Errorf(wire.CodeDenied, "module policy denied the request"))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}))
	t.Cleanup(srv.Close)
	list, err := json.Marshal(append(names, "denied"))
	require.NoError(t, err)

	seen := 0
	out := npmtest.Script(t, "testdata/client.mjs", "CHAT_URL="+srv.URL, "CHAT_NAMES="+string(list))
	for line := range strings.Lines(out) {
		var got struct {
			Name    string
			Message struct {
				Content   *string
				Refusal   string
				ToolCalls []abi.ToolCall `json:"tool_calls"`
			}
			Finish string `json:"finish_reason"`
			Failed string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &got), line)
		seen++
		switch got.Name {
		case "cut":
			require.Equal(t, "the upstream's answer was cut off", got.Failed)
			continue
		case "denied":
			require.Equal(t, "400 module policy denied the request", got.Failed)
			continue
		}
		require.Empty(t, got.Failed, got.Name)
		want := responseOf(t, streams["/"+got.Name+"/chat/completions"])
		require.Equal(t, want.FinishReason, got.Finish, got.Name)
		text := got.Message.Refusal
		if got.Message.Content != nil {
			text = *got.Message.Content
		}
		require.Equal(t, want.Message.Content.String(), text, got.Name)
		require.Len(t, got.Message.ToolCalls, len(want.Message.ToolCalls), got.Name)
		for i, c := range got.Message.ToolCalls {
			require.Equal(t, want.Message.ToolCalls[i].Function, c.Function, got.Name)
		}
	}
	require.Equal(t, len(names)+1, seen)
}

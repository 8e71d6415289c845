package server_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/npmtest"
	"github.com/agent-runner/agent-runner/internal/server/console"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// TestConsoleIsServed checks that the console is public, and other unknown paths remain problems of
// the API.
func TestConsoleIsServed(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	console.Mount(func(pattern string, _ http.Handler) {
		_, path, _ := strings.Cut(strings.TrimSuffix(pattern, "{$}"), " ")
		r := f.Send("GET", path, "", nil)
		require.Equal(t, 200, r.Status, path)
		require.Equal(t, console.Policy, r.Header.Get("Content-Security-Policy"))
		require.Equal(t, "nosniff", r.Header.Get("X-Content-Type-Options"))
		require.NotEmpty(t, r.Header.Get("X-Request-Id"))
		require.Equal(t, "GET, HEAD", problemHeader(f.Send("POST", path, f.Acme, nil), t, 405).Get("Allow"))
	})
	for _, path := range []string{"/console", "/console/", "/console/0000000000000000/main.js", "/index.html", "/runs"} {
		f.Send("GET", path, "", nil).Problem(t, 404)
	}
}

func problemHeader(r *servertest.Reply, t *testing.T, status int) http.Header {
	t.Helper()
	r.Problem(t, status)
	return r.Header
}

// asker is a module with a tool, and an interrupt before each call of it.
const asker = `import { defineMiddleware, textResult } from "@agent-runner/middleware";

export default defineMiddleware({
	name: "asker", version: "0.3.1", description: "Puts each deletion before a person.",
	beforeAgent: () => ({ tools: { add: [{
		name: "delete_report", description: "Deletes a report",
		parameters: { type: "object", properties: { path: { type: "string" } } },
	}] } }),
	gateTool: ({ call }) => (call.name === "delete_report" ? {
		decision: "ask",
		message: "May <em>" + JSON.parse(call.arguments).path + "</em> be deleted?",
		payload: { risk: "high", undo: false },
	} : { decision: "allow" }),
	callTool: ({ call }) => ({ result: textResult("deleted " + JSON.parse(call.arguments).path) }),
});
`

// crash is a module whose hook fails, because it reads a message that does not exist.
const crash = `import { defineMiddleware } from "@agent-runner/middleware";

export default defineMiddleware({ name: "crash", beforeAgent: ({ messages }) => ({ instruction: messages.at(99).content }) });
`

// A cutting is a handler that cuts off the first event stream of each run after two writes.
type cutting struct {
	http.Handler
	mu    sync.Mutex
	cut   map[string]bool
	asked []string // the Last-Event-ID of each stream
}

func (c *cutting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/events") || r.Method != http.MethodGet {
		c.Handler.ServeHTTP(w, r)
		return
	}
	c.mu.Lock()
	c.asked = append(c.asked, r.Header.Get("Last-Event-ID"))
	first := !c.cut[r.URL.Path]
	c.cut[r.URL.Path] = true
	c.mu.Unlock()
	if first {
		w = &cutWriter{ResponseWriter: w, left: 2}
	}
	c.Handler.ServeHTTP(w, r)
}

// A cutWriter fails all writes after the first ones. left is the number of writes that still
// succeed.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (w *cutWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *cutWriter) Write(b []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, http.ErrAbortHandler
	}
	return w.ResponseWriter.Write(b)
}

// consoleReply is the model of the tests in a browser. Its reply depends on the last message alone.
func consoleReply(_ int, req *model.Request) scripted.Reply {
	last := req.Messages[len(req.Messages)-1]
	switch text := last.Content.String(); {
	case strings.HasPrefix(text, "Wait"):
		return scripted.Reply{
			Chunks: []abi.Chunk{{Kind: abi.ChunkText, Text: "I am still "}, {Kind: abi.ChunkText, Text: "thinking"}},
			Hang:   true,
		}
	case strings.HasPrefix(text, "What else"):
		return streamed(scripted.Text("Only the report of 2020, nothing else."))
	case last.Role != abi.RoleTool:
		call := scripted.Calls(abi.ToolCall{ID: "call_1", Function: abi.FunctionCall{
			Name: "delete_report", Arguments: `{"path":"reports/2019.txt"}`}})
		call.Response.Usage = &abi.Usage{PromptTokens: 412, CompletionTokens: 38, TotalTokens: 450}
		return call
	}
	answer := streamed(scripted.Text("The old report is gone, all done.\n" +
		"<img src=x onerror=\"document.title='owned'\"> and <script>document.title='owned'</script> are only text."))
	answer.Response.Usage = &abi.Usage{PromptTokens: 507, CompletionTokens: 61, TotalTokens: 568}
	return answer
}

// streamed returns a reply in chunks.
func streamed(r scripted.Reply) scripted.Reply {
	r.Size, r.Delay = 12, 20*time.Millisecond
	return r
}

// browserInput is the input of testdata/console.mjs.
type browserInput struct {
	URL      string `json:"url"`
	Folder   string `json:"folder"` // of the npm packages
	Chromium string `json:"chromium"`
	Shots    string `json:"shots"` // where to save screenshots; empty for none
	Key      string `json:"key"`
	Operator string `json:"operator"`
	Client   string `json:"client"` // the folder of the TypeScript client, as npm installs it
	Whole    bool   `json:"whole"`  // whether the dark and narrow visit uses all pages
	// Modules has the sources of modules by name.
	Modules map[string]string `json:"modules"`
}

// TestConsoleInBrowser checks that a user signs in, starts a run, answers its interrupt and sees
// the changes by modules: in light and dark mode, on wide and narrow screens, with mouse and
// keyboard. Only as a long test, it uses all pages in dark mode on a narrow screen too; otherwise
// it checks their width and contrast there.
func TestConsoleInBrowser(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a browser takes seconds")
	}
	b := browserInput{Folder: npmtest.Folder(t), Chromium: npmtest.Chromium(t), Shots: os.Getenv("CONSOLE_SHOTS"),
		Whole: longtest.Enabled()}
	f := servertest.New(t)
	f.SetModel(scripted.Func(consoleReply))
	f.Services.Agents.Options.Journal.Originals = true // the diff of what mask changed needs the original
	cut := &cutting{Handler: f.Server, cut: map[string]bool{}}
	front := httptest.NewServer(cut)
	t.Cleanup(front.Close)
	b.URL, b.Key, b.Operator, b.Client = front.URL, f.Acme, f.Operator, packClient(t, t.TempDir())
	b.Modules = map[string]string{"mask": servertest.MaskModule, "asker": asker, "crash": crash}
	received, err := json.Marshal(b)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join("testdata", "console.mjs"))
	cmd.Stdin = bytes.NewReader(received)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
	require.Contains(t, string(out), "ok: light", "%s", out)
	require.Contains(t, string(out), "ok: dark")
	require.NotContains(t, string(out), f.Acme, "the key is shown nowhere")

	cut.mu.Lock()
	defer cut.mu.Unlock()
	var resumed int
	for _, id := range cut.asked {
		if id != "" && id != "0" {
			resumed++
		}
	}
	require.GreaterOrEqual(t, resumed, 2, "broken streams resumed after the last event: %q", cut.asked)
}

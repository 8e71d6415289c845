package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// fakeVariable names the environment variable that makes the test binary serve MCP instead of
// testing. Its value selects a misbehavior.
const fakeVariable = "AGENT_RUNNER_FAKE_MCP_SERVER"

func TestMain(m *testing.M) {
	if mode, ok := os.LookupEnv(fakeVariable); ok {
		serveFake(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

// fake returns options for a server that misbehaves in the given way.
func fake(t *testing.T, mode string) *Options {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return &Options{
		Name:    "fake",
		Command: []string{self},
		Env:     []string{fakeVariable + "=" + mode, "FAKE_DIR=" + t.TempDir(), "GORACE=atexit_sleep_ms=0"},
		Timeout: 20 * time.Second,
	}
}

// dir returns the directory into which a fake server writes files for its test.
func (o *Options) dir() string {
	_, dir, _ := strings.Cut(o.Env[1], "=")
	return dir
}

// A fakeServer reads and writes lines without a library, so that it can violate the protocol.
type fakeServer struct {
	mode string
	mu   sync.Mutex
	out  *bufio.Writer
}

type fakeRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Cursor    string          `json:"cursor"`
		RequestID json.RawMessage `json:"requestId"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"params"`
}

// serveFake serves MCP on standard input and output with the given misbehavior, until the input
// ends.
func serveFake(mode string) {
	s := &fakeServer{mode: mode, out: bufio.NewWriter(os.Stdout)}
	switch mode {
	case "exits":
		fmt.Fprintln(os.Stderr, "cannot find my configuration\nsee the manual")
		os.Exit(3) //nolint:forbidigo // the server is a process of its own
	case "silent":
		fmt.Fprintln(os.Stderr, "I am thinking")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		defer func() { select {} }()
	case "deaf":
		defer func() {
			c := make(chan os.Signal, 1)
			signal.Notify(c, syscall.SIGTERM)
			<-c
			s.leave("terminated", "yes")
		}()
	case "chatty":
		s.say("Server is starting…")
		s.say(`{"level":30,"msg":"a log line in JSON"}`)
		s.say(`[1,2,3]`)
		s.say("")
		s.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hi"}}`)
		s.say(`{"jsonrpc":"2.0","id":"x","result":{}}`)
	case "floods stdout":
		for {
			s.say(strings.Repeat("noise ", 1000))
		}
	case "nags":
		go func() {
			id := strings.Repeat("9", 4000) // the answers, which repeat the id, soon fill the pipe
			for i := range 1000 {
				s.say(`{"jsonrpc":"2.0","id":"%d%s","method":"ping"}`, i, id)
			}
		}()
		time.Sleep(time.Hour) // never reads
	case "grandchild":
		cmd := exec.Command("sleep", "1000")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if cmd.Start() == nil {
			s.leave("grandchild", fmt.Sprint(cmd.Process.Pid))
		}
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var r fakeRequest
		if json.Unmarshal(in.Bytes(), &r) == nil {
			s.serve(&r)
		}
	}
}

func (s *fakeServer) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format+"\n", args...)
	s.out.Flush()
}

// leave writes a file for the test. The file appears with its whole content.
func (s *fakeServer) leave(name, text string) {
	dir := os.Getenv("FAKE_DIR")
	if os.WriteFile(dir+"/."+name, []byte(text), 0o644) == nil {
		_ = os.Rename(dir+"/."+name, dir+"/"+name)
	}
}

func (s *fakeServer) answer(r *fakeRequest, result string) {
	s.say(`{"result":%s,"jsonrpc":"2.0","id":%s}`, result, r.ID)
}

func (s *fakeServer) refuse(r *fakeRequest, code int, message string) {
	s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, r.ID, code, message)
}

func (s *fakeServer) serve(r *fakeRequest) {
	switch r.Method {
	case "initialize":
		if s.mode == "modern" {
			s.refuse(r, -32601, "initialize is a thing of the past")
			return
		}
		s.answer(r, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}`)
	case "server/discover":
		if s.mode == "modern" {
			s.answer(r, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
			return
		}
		fmt.Fprintln(os.Stderr, "what is discover?") // servers that know only initialize may exit here
		os.Exit(4)                                   //nolint:forbidigo // the server is a process of its own
	case "tools/list":
		s.list(r)
	case "tools/call":
		s.call(r)
	case "notifications/cancelled":
		s.leave("canceled", string(r.Params.RequestID))
	}
}

func (s *fakeServer) list(r *fakeRequest) {
	const tool = `{"name":"%s","inputSchema":{"type":"object"}}`
	switch s.mode {
	case "pages":
		pages := map[string]string{
			"":   `{"tools":[` + fmt.Sprintf(tool, "one") + `,` + fmt.Sprintf(tool, "two") + `],"nextCursor":"p2"}`,
			"p2": `{"tools":[],"nextCursor":"p3"}`,
			"p3": `{"tools":[` + fmt.Sprintf(tool, "three") + `]}`,
		}
		s.answer(r, pages[r.Params.Cursor])
	case "endless pages":
		s.answer(r, `{"tools":[],"nextCursor":"again"}`)
	case "many tools":
		var tools []string
		for i := range 600 {
			tools = append(tools, fmt.Sprintf(tool, fmt.Sprint("t", i)))
		}
		s.answer(r, `{"tools":[`+strings.Join(tools, ",")+`]}`)
	case "no tools":
		s.refuse(r, -32601, "Method not found")
	case "odd tools":
		s.answer(r, `{"tools":[`+strings.ReplaceAll(oddTools, "\n", "")+`]}`)
	case "bad list":
		s.answer(r, `{"tools":7}`)
	case "hangs at list":
	case "huge list":
		s.answer(r, `{"tools":[{"name":"x","description":"`+strings.Repeat("x", 1<<20)+`","inputSchema":{"type":"object"}}]}`)
	default:
		s.answer(r, `{"tools":[`+fmt.Sprintf(tool, "work")+`,`+fmt.Sprintf(tool, "other")+`]}`)
	}
}

const oddTools = `
	{"name":"good","title":"A title","annotations":{"readOnlyHint":true},"inputSchema":{ "type":"object", "properties":{"z":{"type":"integer","maximum":9007199254740993},"a":{"const":1.50}}}},
	{"name":"idempotent","description":"d","annotations":{"idempotentHint":true},"inputSchema":{"type":"object"},"_meta":{"own":1}},
	{"name":"no schema"},
	{"name":"no_schema"},
	{"name":"null_schema","inputSchema":null},
	{"name":"string_schema","inputSchema":"object"},
	{"name":"array_type","inputSchema":{"type":"array"}},
	{"name":"no_type","inputSchema":{"properties":{}}},
	{"name":"properties_list","inputSchema":{"type":"object","properties":[]}},
	{"name":"required_string","inputSchema":{"type":"object","required":"a"}},
	{"name":"twice_a_key","inputSchema":{"type":"object","type":"object"}},
	{"name":"deep","inputSchema":{"type":"object","x":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}},
	{"name":"good","inputSchema":{"type":"object"}},
	{"name":"","inputSchema":{"type":"object"}},
	{"name":"new\nline","inputSchema":{"type":"object"}},
	null`

func (s *fakeServer) call(r *fakeRequest) {
	if r.Params.Name == "other" {
		s.answer(r, `{"content":[{"type":"text","text":"other: well"}]}`)
		return
	}
	switch s.mode {
	case "dies":
		fmt.Fprintln(os.Stderr, "about to die\nfatal: out of ideas")
		os.Exit(7) //nolint:forbidigo // the server is a process of its own
	case "closes stdout":
		os.Stdout.Close()
		time.Sleep(time.Hour)
	case "hangs", "deaf", "stubborn":
		s.leave("called", "yes")
	case "refuses":
		s.refuse(r, -32602, "message must be a string")
	case "huge result":
		s.answer(r, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 3<<20)+`"}]}`)
	case "huge result, id first":
		s.say(
			`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`,
			r.ID,
			strings.Repeat("x", 3<<20),
		)
	case "unknown content":
		s.answer(r, `{"content":[{"type":"hologram","text":"x"}]}`)
	case "not a result":
		s.answer(r, `"well done"`)
	case "echo":
		s.answer(r, `{"content":[{"type":"text","text":`+string(marshal(string(r.Params.Arguments)))+`}]}`)
	case "structured":
		s.answer(r, `{"content":[],"structuredContent":{"z":9007199254740993,"a":[1.50]}}`)
	case "needs input":
		s.answer(
			r,
			`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object"}}}}}`,
		)
	default:
		s.answer(r, `{"content":[{"type":"text","text":"well"}]}`)
	}
}

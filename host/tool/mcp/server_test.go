package mcp

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
)

func call(ctx context.Context, tl tool.Tool) (*abi.Result, error) {
	return tl.Call(ctx, abi.Call{ID: "c1", Name: tl.Declaration().Name, Arguments: `{}`})
}

// left waits for a file that a fake server writes, and returns its content.
func left(t *testing.T, o *Options, name string) string {
	t.Helper()
	var b []byte
	require.Eventually(t, func() bool {
		var err error
		b, err = os.ReadFile(filepath.Join(o.dir(), name))
		return err == nil
	}, 20*time.Second, 5*time.Millisecond, "the server did not leave %q", name)
	return string(b)
}

func TestConnectFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o644))
	broken := filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(broken, []byte("\x7fELFnot really"), 0o755))
	silent := fake(t, "silent")
	silent.Timeout = 2 * time.Second
	for name, tc := range map[string]struct {
		o    *Options
		want []string
	}{
		"nothing":        {&Options{}, []string{"needs a command or a URL"}},
		"both":           {&Options{Command: []string{"a"}, URL: "http://x"}, []string{"not both"}},
		"not there":      {&Options{Command: []string{"no-such-program-here", "x"}}, []string{`MCP server "no-such-program-here": there is no program "no-such-program-here" in PATH (`, os.Getenv("PATH")}},
		"no such path":   {&Options{Command: []string{"./no/such"}, Dir: dir}, []string{`there is no program "` + dir + `/no/such"`}},
		"not executable": {&Options{Command: []string{plain}}, []string{`cannot be executed`}},
		"no program":     {&Options{Command: []string{broken}}, []string{"exec format error"}},
		"no directory": {
			&Options{Command: []string{"sh"}, Dir: "/no/such"}, []string{"starting it: ", "no such file or directory"},
		},
		"exits":       {fake(t, "exits"), []string{`MCP server "fake": it ended (exit status 3); it printed last:`, "\n  cannot find my configuration\n  see the manual"}},
		"silent":      {silent, []string{"it did not answer within 2s; if it needs longer to start, give it a longer timeout; it printed last:\n  I am thinking"}},
		"floods":      {fake(t, "floods stdout"), []string{"it printed more than 16777216 bytes to stdout that are no MCP messages; it printed last:\n  noise noise"}},
		"nags":        {fake(t, "nags"), []string{"it sent 65 requests without reading their answers"}},
		"bad address": {&Options{URL: "http://"}, []string{"must be http://host/path"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Connect(t.Context(), tc.o)
			require.Nil(t, s)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
			require.Less(t, len(err.Error()), 8000)
		})
	}
}

func TestConnectIsCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("somebody pressed Ctrl-C")
	time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	_, err := Connect(ctx, fake(t, "silent"))
	require.ErrorIs(t, err, cause)
}

func TestConnectAllKinds(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"plain", "chatty", "modern"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			tools := byName(t, connected(t, fake(t, mode)))
			require.Equal(t, "well", ask(t, tools["work"], `{}`).Content.String())
		})
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	t.Run("pages", func(t *testing.T) {
		t.Parallel()
		tools, err := connected(t, fake(t, "pages")).Tools(t.Context())
		require.NoError(t, err)
		var names []string
		for _, tl := range tools {
			names = append(names, tl.Declaration().Name)
		}
		require.Equal(t, []string{"one", "two", "three"}, names)
	})
	hangs := fake(t, "hangs at list")
	hangs.Timeout = 4 * time.Second
	huge := fake(t, "huge list")
	huge.MaxMessage = 1 << 20
	for name, tc := range map[string]struct {
		o    *Options
		want string
	}{
		"endless pages": {fake(t, "endless pages"), `MCP server "fake": its list of tools has more than 512 pages`},
		"many tools":    {fake(t, "many tools"), `MCP server "fake": it has more than 512 tools, which is the limit`},
		"no tools":      {fake(t, "no tools"), `MCP server "fake": it has no tools`},
		"bad list":      {fake(t, "bad list"), `MCP server "fake": its answer is unusable: `},
		"hangs":         {hangs, `MCP server "fake": it did not list its tools within 4s`},
		"huge list":     {huge, "bytes; at most 1048576 are read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := connected(t, tc.o)
			_, err := s.Tools(t.Context())
			require.ErrorContains(t, err, tc.want)
			require.NoError(t, s.unavailable(), "the server is not lost for it")
		})
	}
}

// A recorder collects log lines.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, string(b))
	return len(b), nil
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "")
}

func TestOddTools(t *testing.T) {
	t.Parallel()
	o := fake(t, "odd tools")
	log := &recorder{}
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	tools := byName(t, connected(t, o))
	require.Len(t, tools, 2)
	require.Equal(t, abi.Tool{
		Name: "good", Description: "A title", Idempotent: true, ReadOnly: true,
		Parameters: []byte(
			`{"type":"object","properties":{"z":{"type":"integer","maximum":9007199254740993},"a":{"const":1.50}}}`,
		),
	}, tools["good"].Declaration())
	require.Equal(t, abi.Tool{
		Name: "idempotent", Description: "d", Idempotent: true, Parameters: []byte(`{"type":"object"}`),
	}, tools["idempotent"].Declaration())
	for _, want := range []string{
		`tool="no schema" error="it has no inputSchema"`,
		`tool=no_schema error="it has no inputSchema"`,
		`tool=null_schema error="its inputSchema is not an object"`,
		`tool=string_schema error="its inputSchema is not an object"`,
		`tool=array_type error="its inputSchema has the type \"array\"; want \"object\""`,
		`tool=no_type error="its inputSchema has the type nothing; want \"object\""`,
		`tool=properties_list error="its inputSchema is not a JSON Schema`,
		`tool=required_string error="its inputSchema is not a JSON Schema`,
		`tool=twice_a_key error="its inputSchema is not strict JSON`,
		`tool=deep error="its inputSchema is not strict JSON`,
		`tool=good error="the server lists it twice"`,
		`tool="" error="invalid tool name`,
		`tool="new\nline" error="invalid tool name`,
	} {
		require.Contains(t, log.String(), want)
	}

	small := fake(t, "odd tools")
	small.MaxDeclaration = 64
	require.Equal(
		t,
		`{"type":"object"}`,
		string(byName(t, connected(t, small))["good"].Declaration().Parameters),
		"the first one is too large, so the second is not the second",
	)
}

func TestCall(t *testing.T) {
	t.Parallel()
	huge, first := fake(t, "huge result"), fake(t, "huge result, id first")
	huge.MaxMessage, first.MaxMessage = 1<<20, 1<<20
	slow := fake(t, "hangs")
	slow.CallTimeout = 200 * time.Millisecond
	for name, tc := range map[string]struct {
		o    *Options
		code abi.Code
		want string
	}{
		"refuses":         {fake(t, "refuses"), abi.CodeTool, `MCP server "fake": message must be a string`},
		"huge":            {huge, abi.CodeTool, `MCP server "fake": the answer has 3145`},
		"huge, id first":  {first, abi.CodeTool, `bytes; at most 1048576 are read`},
		"slow":            {slow, abi.CodeLimit, `MCP server "fake" did not answer the call of "work" within 200ms`},
		"unknown content": {fake(t, "unknown content"), abi.CodeTool, "its answer is unusable: "},
		"not a result":    {fake(t, "not a result"), abi.CodeTool, "its answer is unusable: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools := byName(t, connected(t, tc.o))
			_, err := call(t.Context(), tools["work"])
			require.ErrorContains(t, err, tc.want)
			require.ErrorIs(t, err, &abi.Error{Code: tc.code})
			require.NoError(t, tools["other"].(*remote).server.unavailable())
			if tc.o.CallTimeout == 0 {
				require.Equal(t, "other: well", ask(t, tools["other"], `{}`).Content.String(), "the server is not lost for it")
			}
		})
	}
	for name, tc := range map[string]struct{ mode, arguments, want string }{
		"exact arguments":    {"echo", `{"z":9007199254740993,"a":"<ä>","n":1.50}`, `{"z":9007199254740993,"a":"<ä>","n":1.50}`},
		"no arguments":       {"echo", ``, `{}`},
		"structured content": {"structured", `{}`, `{"z":9007199254740993,"a":[1.50]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, ask(t, byName(t, connected(t, fake(t, tc.mode)))["work"], tc.arguments).Content.String())
		})
	}
	t.Run("bad arguments", func(t *testing.T) {
		t.Parallel()
		work := byName(t, connected(t, fake(t, "echo")))["work"]
		for _, arguments := range []string{`{`, `[]`, `null`, `{"a":1,"a":2}`} {
			_, err := work.Call(t.Context(), abi.Call{Arguments: arguments})
			require.ErrorIs(t, err, &abi.Error{Code: abi.CodeInvalid}, arguments)
		}
	})
}

func TestCancelReachesTheServer(t *testing.T) {
	t.Parallel()
	o := fake(t, "hangs")
	work := byName(t, connected(t, o))["work"]
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the run was canceled")
	go func() {
		defer cancel(cause)
		left(t, o, "called")
	}()
	_, err := call(ctx, work)
	require.ErrorIs(t, err, cause)
	require.NotEmpty(t, left(t, o, "canceled"))
}

// TestServerDies checks that calls fail if their server dies, and that calls to another server
// succeed.
func TestServerDies(t *testing.T) {
	t.Parallel()
	s := connected(t, fake(t, "dies"))
	tools := byName(t, s)
	bystander := byName(t, connected(t, fake(t, "plain")))["work"]

	_, err := call(t.Context(), tools["work"])
	require.EqualError(
		t,
		err,
		"MCP server \"fake\" failed during the call: it ended (exit status 7); it printed last:\n  about to die\n  fatal: out of ideas",
	)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeTool})

	_, err = call(t.Context(), tools["other"])
	require.EqualError(
		t,
		err,
		"MCP server \"fake\" is no longer available: it ended (exit status 7); it printed last:\n  about to die\n  fatal: out of ideas",
	)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeUnavailable})
	_, err = s.Tools(t.Context())
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeUnavailable})

	require.Equal(t, "well", ask(t, bystander, `{}`).Content.String())
}

func TestServerClosesStdout(t *testing.T) {
	t.Parallel()
	o := fake(t, "closes stdout")
	o.Grace = 50 * time.Millisecond
	work := byName(t, connected(t, o))["work"]
	_, err := call(t.Context(), work)
	require.ErrorContains(t, err, `MCP server "fake" failed during the call: it ended (signal: `)
}

func TestClose(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"hangs", "deaf", "stubborn"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			o := fake(t, mode)
			o.Grace = 50 * time.Millisecond
			switch mode {
			case "hangs":
				o.Grace = time.Minute // must not be used up
			case "deaf":
				o.Grace = 2 * time.Second // time for the server's handler of SIGTERM
			}
			s, err := Connect(t.Context(), o)
			require.NoError(t, err)
			work := byName(t, s)["work"]
			failed := make(chan error, 1)
			go func() {
				_, err := call(context.Background(), work)
				failed <- err
			}()
			left(t, o, "called")
			var closers sync.WaitGroup
			for range 3 {
				closers.Go(func() { require.NoError(t, s.Close()) })
			}
			closers.Wait()
			require.EqualError(t, <-failed, `MCP server "fake" is no longer available: it was closed`)
			_, err = call(t.Context(), work)
			require.ErrorIs(t, err, &abi.Error{Code: abi.CodeUnavailable})

			<-s.conn.p.done
			switch mode {
			case "hangs":
				require.Equal(t, "exit status 0", s.conn.p.status(), "its stdin was closed")
			case "deaf":
				require.Equal(t, "yes", left(t, o, "terminated"))
			case "stubborn":
				require.Equal(t, "signal: killed", s.conn.p.status())
			}
		})
	}
}

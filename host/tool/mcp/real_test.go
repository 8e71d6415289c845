package mcp

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/npmtest"
)

// connected connects to a server and closes it when the test ends.
func connected(t *testing.T, o *Options) *Server {
	t.Helper()
	s, err := Connect(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// byName lists the server's tools.
func byName(t *testing.T, s *Server) map[string]tool.Tool {
	t.Helper()
	tools, err := s.Tools(t.Context())
	require.NoError(t, err)
	m := map[string]tool.Tool{}
	for _, tl := range tools {
		m[tl.Declaration().Name] = tl
	}
	return m
}

func ask(t *testing.T, tl tool.Tool, arguments string) *abi.Result {
	t.Helper()
	require.NotNil(t, tl)
	res, err := tl.Call(t.Context(), abi.Call{ID: "c1", Name: tl.Declaration().Name, Arguments: arguments})
	require.NoError(t, err)
	return res
}

func TestFilesystemServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("hello"), 0o644))
	s := connected(t, &Options{Command: []string{npmtest.Bin(t, "mcp-server-filesystem"), dir}})
	require.Equal(t, `MCP server "mcp-server-filesystem"`, s.String())
	tools := byName(t, s)
	require.True(t, tools["read_text_file"].Declaration().Idempotent)
	require.False(t, tools["edit_file"].Declaration().Idempotent)
	require.True(t, tools["write_file"].Declaration().Idempotent)
	require.Contains(
		t,
		string(tools["write_file"].Declaration().Parameters),
		`"properties":{"path":{"type":"string"},"content":{"type":"string"}}`,
		"properties keep their order",
	)

	path := marshal(filepath.Join(dir, "a.txt"))
	require.Equal(t, "hello", ask(t, tools["read_text_file"], `{"path":`+string(path)+`}`).Content.String())
	outside := ask(t, tools["read_text_file"], `{"path":"/etc/passwd"}`)
	require.True(t, outside.IsError)
	require.Contains(t, outside.Content.String(), "Access denied")
}

// everything tests the features of the reference server, over either transport.
func everything(t *testing.T, s *Server) {
	tools := byName(t, s)
	echo := tools["echo"]
	require.NotNil(t, echo)
	require.Equal(t, "Echo: ünï <b>", ask(t, echo, `{"message":"ünï <b>"}`).Content.String())

	sum := ask(t, tools["get-sum"], `{"a":2,"b":40}`)
	require.Contains(t, sum.Content.String(), "42")

	image := ask(t, tools["get-tiny-image"], ``)
	require.True(t, image.Content.IsParts())
	var kinds []string
	for _, p := range image.Content.Parts() {
		kinds = append(kinds, p.Type)
		if p.Type == abi.PartImage {
			require.True(
				t,
				strings.HasPrefix(string(p.ImageURL), `{"url":"data:image/png;base64,iVBOR`),
				string(p.ImageURL)[:60],
			)
		}
	}
	require.Contains(t, kinds, abi.PartImage)
	require.Contains(t, kinds, abi.PartText)

	links := ask(t, tools["get-resource-links"], `{"count":2}`)
	require.Contains(t, links.Content.String(), "Resource demo://resource/")

	embedded := ask(t, tools["get-resource-reference"], `{"resourceType":"Blob","resourceId":1}`)
	require.True(t, embedded.Content.IsParts())

	structured := ask(t, tools["get-structured-content"], `{"location":"New York"}`)
	require.Contains(t, structured.Content.String(), "temperature")

	wrong, err := echo.Call(t.Context(), abi.Call{Arguments: `{"message":7}`})
	if err == nil {
		require.True(t, wrong.IsError)
	}

	// Calls in parallel, one of which is canceled in the middle.
	long := tools["trigger-long-running-operation"]
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	canceled := make(chan error, 1)
	go func() {
		_, err := long.Call(ctx, abi.Call{Arguments: `{"duration":60,"steps":60}`})
		canceled <- err
	}()
	done := ask(t, long, `{"duration":1,"steps":2}`)
	require.Contains(t, done.Content.String(), "completed")
	require.ErrorIs(t, <-canceled, context.DeadlineExceeded)
	require.Equal(t, "Echo: still there", ask(t, echo, `{"message":"still there"}`).Content.String())
}

func TestEverythingOverStdio(t *testing.T) {
	t.Parallel()
	everything(t, connected(t, &Options{Command: []string{npmtest.Bin(t, "mcp-server-everything"), "stdio"}}))
}

func TestEverythingOverHTTP(t *testing.T) {
	t.Parallel()
	bin := npmtest.Bin(t, "mcp-server-everything")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())

	cmd := exec.Command(bin, "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+port)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if strings.Contains(lines.Text(), port) {
			break
		}
	}
	url := "http://127.0.0.1:" + port + "/mcp"
	require.Eventually(t, func() bool {
		resp, err := http.Get(url)
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil
	}, 20*time.Second, 20*time.Millisecond)
	everything(t, connected(t, &Options{URL: url}))
}

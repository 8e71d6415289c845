package admission_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// inputs holds the body of a request that starts a run, by path. The user's message replaces %s, and
// the id of a conversation replaces THREAD.
var inputs = map[string]string{
	"/v1/runs":                `{"agent":"greeter","input":"%s"}`,
	"/v1/chat/completions":    `{"model":"greeter","messages":[{"role":"user","content":"%s"}]}`,
	"/v1/agents/greeter/agui": `{"threadId":"THREAD","runId":"r","messages":[{"id":"1","role":"user","content":"%s"}]}`,
}

// lastThread is the number of the last thread that inputOf used.
var lastThread atomic.Int64

// inputOf returns a request body of size bytes for a path of inputs. Each body names another thread,
// because a thread runs one turn at a time: if two requests for the same turn arrive together, one
// fails with status 409.
func inputOf(path string, size int) []byte {
	form := strings.Replace(inputs[path], "THREAD", fmt.Sprint(lastThread.Add(1)), 1)
	return fmt.Appendf(nil, form, strings.Repeat("x", size+len("%s")-len(form)))
}

// TestInputsAreBounded checks that the tenant's quota limits the input of a run at every endpoint,
// with and without Content-Length.
func TestInputsAreBounded(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{"greeter": servertest.HelloAgent})
	_, err := f.Store.Tenant("acme").PutAgent(t.Context(), "greeter", []byte("{}"), nil)
	require.NoError(t, err)
	for _, test := range []struct {
		quota, fits, refused int
		name                 string
	}{
		{0, 1 << 20, 1<<20 + 1, "input_bytes"},
		{1000, 1000, 1001, "input_bytes"},
		{1 << 30, 2 << 20, 8<<20 + 1, ""}, // the route's limit is lower
	} {
		f.OK("PATCH", "/v1/tenants/acme", f.Operator, map[string]any{"quota": map[string]any{"input_bytes": test.quota}}, nil)
		for path := range inputs {
			r := f.Send("POST", path, f.Acme, inputOf(path, test.fits))
			require.Less(t, r.Status, 300, "%s of %d: %s", path, test.fits, r.Body)
			body := inputOf(path, test.refused)
			p := f.Send("POST", path, f.Acme, body).Problem(t, 413, path)
			require.Equal(t, test.name, p.Quota, path)
			require.Contains(t, p.Detail, fmt.Sprintf("more than %d bytes", test.refused-1))

			req, err := http.NewRequestWithContext(
				t.Context(),
				"POST",
				f.URL+path,
				io.MultiReader(bytes.NewReader(body)),
			) // without Content-Length
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+f.Acme)
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			unsized, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(
				t,
				test.name,
				(&servertest.Reply{Status: res.StatusCode, Header: res.Header, Body: unsized}).Problem(t, 413, path).Quota,
				path,
			)
		}
	}
}

// TestTooLargeInputsAreRejectedEarly checks that a request whose Content-Length is too large is
// rejected before its body arrives.
func TestTooLargeInputsAreRejectedEarly(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	address := f.Serve(t)
	for path := range inputs {
		conn := servertest.SendText(
			t,
			address,
			fmt.Sprintf(
				"POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
				path,
				f.Acme,
				1<<20+1,
			),
		)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, path)
		require.Equal(t, 413, res.StatusCode, path)
		require.NoError(t, res.Body.Close())
	}
}

// TestLargeInputsWait checks that a tenant's large inputs are parsed, and written, one at a
// time. Small inputs, and those of other tenants, do not wait.
func TestLargeInputsWait(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{"greeter": servertest.HelloAgent})
	_, err := f.Store.Tenant("acme").PutAgent(t.Context(), "greeter", []byte("{}"), nil)
	require.NoError(t, err)
	const large = admission.LargeBody + 1
	for path := range inputs {
		for name, hold := range map[string]func() (release func()){
			"parse": func() func() {
				held, done := make(chan struct{}), make(chan struct{})
				go f.Services.Admission.Parse(context.Background(), "acme", large, func() error {
					close(held)
					<-done
					return nil
				})
				<-held
				return func() { close(done) }
			},
			"write": func() func() {
				done, err := f.Services.Admission.Write(t.Context(), "acme", large)
				require.NoError(t, err)
				return done
			},
		} {
			done := hold()
			body := inputOf(path, large)
			answered := make(chan *servertest.Reply, 1)
			go func() { answered <- f.Send("POST", path, f.Acme, body) }()
			require.Eventually(t, func() bool {
				_, held := f.Services.Admission.InFlight.Load("acme")
				return held == int64(len(body))
			}, time.Minute, time.Millisecond, "%s: the body of a request that waits counts", name)
			require.Less(t, f.Send("POST", path, f.Acme, inputOf(path, admission.SmallBody)).Status, 300)
			require.Equal(t, 202, f.Send("POST", "/v1/runs", f.Beta, inputOf("/v1/runs", large)).Status)
			require.Empty(t, answered)
			done()
			require.Less(t, (<-answered).Status, 300, "%s %s", name, path)
		}
	}
}

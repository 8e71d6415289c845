package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/agent"
	"github.com/agent-runner/agent-runner/host/store"
)

// inputs are requests that begin a run, by their paths; %s is what the user says.
var inputs = map[string]string{
	"/v1/runs":                `{"agent":"greeter","input":"%s"}`,
	"/v1/chat/completions":    `{"model":"greeter","messages":[{"role":"user","content":"%s"}]}`,
	"/v1/agents/greeter/agui": `{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":"%s"}]}`,
}

// inputOf is a request of so many bytes.
func inputOf(path string, size int) []byte {
	form := inputs[path]
	return fmt.Appendf(nil, form, strings.Repeat("x", size+len("%s")-len(form)))
}

// What a run is to read has a size that the tenant's quota says, whichever endpoint it
// comes through, and whether the request says how large it is or not.
func TestInputsAreBounded(t *testing.T) {
	t.Parallel()
	f, _ := runFixture(t, map[string]func() *agent.Options{"greeter": hello})
	_, err := f.store.Tenant("acme").PutAgent(t.Context(), "greeter", []byte("{}"), nil)
	require.NoError(t, err)
	for _, test := range []struct {
		quota, fits, refused int
		name                 string
	}{
		{0, 1 << 20, 1<<20 + 1, "input_bytes"},
		{1000, 1000, 1001, "input_bytes"},
		{1 << 30, 2 << 20, 8<<20 + 1, ""}, // not more than the route has
	} {
		f.ok("PATCH", "/v1/tenants/acme", f.operator, map[string]any{"quota": map[string]any{"input_bytes": test.quota}}, nil)
		for path := range inputs {
			r := f.send("POST", path, f.acme, inputOf(path, test.fits))
			require.Less(t, r.status, 300, "%s of %d: %s", path, test.fits, r.body)
			body := inputOf(path, test.refused)
			p := f.send("POST", path, f.acme, body).problem(t, 413, path)
			require.Equal(t, test.name, p.Quota, path)
			require.Contains(t, p.Detail, fmt.Sprintf("more than %d bytes", test.refused-1))

			req, err := http.NewRequestWithContext(t.Context(), "POST", f.url+path, io.MultiReader(bytes.NewReader(body))) // of no size
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+f.acme)
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			unsized, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, test.name, (&reply{res.StatusCode, res.Header, unsized}).problem(t, 413, path).Quota, path)
		}
	}
}

// Of large inputs one of a tenant is read, and one is written into the journal, at a time.
// Small ones, and those of others, do not wait for it.
func TestLargeInputsTakeTurns(t *testing.T) {
	t.Parallel()
	f, _ := runFixture(t, map[string]func() *agent.Options{"greeter": hello})
	_, err := f.store.Tenant("acme").PutAgent(t.Context(), "greeter", []byte("{}"), nil)
	require.NoError(t, err)
	for path := range inputs {
		for _, turns := range []*turns{f.server.reading, f.server.keeping} {
			done, err := turns.take(t.Context(), "acme")
			require.NoError(t, err)
			body := inputOf(path, largeInput+1)
			answered := make(chan *reply, 1)
			go func() { answered <- f.send("POST", path, f.acme, body) }()
			require.Eventually(t, func() bool { return turns.waiting("acme") == 1 }, time.Minute, time.Millisecond)
			f.server.underway.mu.Lock()
			held := f.server.underway.tenants["acme"].bytes
			f.server.underway.mu.Unlock()
			require.Equal(t, int64(len(body)), held, "what waits is in memory")
			require.Less(t, f.send("POST", path, f.acme, inputOf(path, largeInput)).status, 300)
			require.Equal(t, 202, f.send("POST", "/v1/runs", f.beta, inputOf("/v1/runs", largeInput+1)).status)
			require.Empty(t, answered)
			done()
			require.Less(t, (<-answered).status, 300, path)
		}
	}
	f.server.reading = newTurns("large inputs", 1, 1, 0)
	for path := range inputs {
		p := f.send("POST", path, f.acme, inputOf(path, largeInput+1)).problem(t, 429, path)
		require.Equal(t, "large inputs", p.Quota)
	}
}

// Between two large inputs of a tenant there is time for others, which has an end.
func TestLargeInputsRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		large := newLarge()
		for _, input := range []struct {
			bytes      int
			took, rest time.Duration
		}{
			{largeInput, 100 * time.Millisecond, 0},
			{largeInput + 1, 100 * time.Millisecond, 300 * time.Millisecond},
			{largeMore, 100 * time.Millisecond, 400 * time.Millisecond},
			{1 << 20, 20 * time.Millisecond, 220 * time.Millisecond},
			{1 << 20, 100 * time.Millisecond, time.Second},
			{largeInput + 1, time.Hour, time.Second},
		} {
			c := &Caller{Key: &store.Key{Tenant: "acme"}, body: input.bytes}
			done, err := large.largely(t.Context(), c)
			require.NoError(t, err)
			time.Sleep(input.took)
			done()
			began := time.Now()
			done, err = large.largely(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, input.rest, time.Since(began), "%+v", input)
			done()
			synctest.Wait()
			time.Sleep(mostRest)
		}
	})
}

// Of requests that only read one of a tenant is answered at a time, and those of another
// tenant do not wait for it; one that took long is followed by a rest, even if it panicked.
func TestLooksTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Server{}
		s.ownLooks, s.looks = newLooks()
		get := &Route{Method: http.MethodGet}
		began := time.Now()
		look := func(tenant string, took time.Duration) (at time.Duration) {
			require.NoError(t, s.look(t.Context(), &Caller{Key: &store.Key{Tenant: tenant}}, get, func() error {
				at = time.Since(began)
				time.Sleep(took)
				return nil
			}))
			return at
		}
		go func() {
			defer func() { _ = recover() }()
			_ = s.look(t.Context(), &Caller{Key: &store.Key{Tenant: "mallory"}}, get, func() error {
				time.Sleep(100 * time.Millisecond)
				panic("it fails")
			})
		}()
		synctest.Wait()
		require.Zero(t, look("acme", time.Millisecond))
		require.Equal(t, 400*time.Millisecond, look("mallory", time.Millisecond), "100 for the first, and 300 of rest")
		require.Equal(t, 401*time.Millisecond, look("mallory", 0), "a short one is followed by none")
		require.NoError(t, s.look(t.Context(), nil, get, func() error { return nil }), "what is for everybody waits for nobody")
	})
}

// A request that says that it is too large is answered without what it would send.
func TestLargeInputsAreNotAwaited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	address := f.serve(t)
	for path := range inputs {
		conn := say(t, address, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, f.acme, 1<<20+1))
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, path)
		require.Equal(t, 413, res.StatusCode, path)
		require.NoError(t, res.Body.Close())
	}
}

// A body of no size is counted as what the tenant may send.
func TestUnsizedInputsAreHeld(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	info, err := f.store.TenantInfo(t.Context(), "acme")
	require.NoError(t, err)
	c := &Caller{Info: info}
	req := &http.Request{ContentLength: -1, Body: io.NopCloser(strings.NewReader(""))}
	r := &Route{Body: 8 << 20, Input: true}
	require.Equal(t, int64(defaultInput), held(req, r, c))
	info.Quota.InputBytes = 5
	require.Equal(t, int64(5), held(req, r, c))
	r.Input = false
	require.Equal(t, int64(8<<20), held(req, r, c))
}

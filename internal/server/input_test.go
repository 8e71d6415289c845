package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/store"
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
		for _, turns := range []*turns{f.server.reading.own, f.server.keeping} {
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
	f.server.reading.own = newTurns("large inputs", 1, 1, 0)
	for path := range inputs {
		p := f.send("POST", path, f.acme, inputOf(path, largeInput+1)).problem(t, 429, path)
		require.Equal(t, "large inputs", p.Quota)
	}
}

// Between two large inputs that a tenant keeps there is time for others, which has an end.
func TestLargeInputsRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, input := range []struct {
			bytes      int
			took, rest time.Duration
		}{
			{largeInput, 100 * time.Millisecond, 0},
			{largeInput + 1, 100 * time.Millisecond, 300 * time.Millisecond},
			{largeMore, 75 * time.Millisecond, 300 * time.Millisecond},
			{1 << 20, 21 * time.Millisecond, 231 * time.Millisecond},
			{1 << 20, 60 * time.Millisecond, 660 * time.Millisecond},
			{1 << 20, 100 * time.Millisecond, time.Second},
			{largeInput + 1, time.Hour, time.Second},
		} {
			s := working()
			c := &Caller{Key: &store.Key{Tenant: "acme"}, body: input.bytes}
			done, err := s.keep(t.Context(), c)
			require.NoError(t, err)
			time.Sleep(input.took)
			done()
			began := time.Now()
			done, err = s.keep(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, input.rest, time.Since(began), "%+v", input)
			done()
			synctest.Wait()
			time.Sleep(mostRest)
		}
	})
}

// working is what a server does tenants' work by, on two processors that others want.
func working() *Server {
	s := &Server{processors: newProcessors(2), spent: newWork(1), keeping: newLarge()}
	s.guests = newGuests(s.processors, s.spent, func(string) bool { return true })
	s.guests.yield = func() time.Duration { return time.Second }
	s.reading, s.looks = newReading(s.processors, s.spent, nil), newLooks(s.spent, nil)
	return s
}

// Of requests that only read one of a tenant is answered at a time, and those of another
// tenant do not wait for it; who had much rests, even if it panicked.
func TestLooksTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := working()
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
				time.Sleep(workBurst + 50*time.Millisecond)
				panic("it fails")
			})
		}()
		synctest.Wait()
		require.Zero(t, look("acme", time.Millisecond))
		require.Equal(t, 500*time.Millisecond, look("mallory", 10*time.Millisecond), "300 for the first, and four times what was too much")
		s.looks.wanted = func(string) bool { return false }
		require.Equal(t, 540*time.Millisecond, look("mallory", time.Second))
		require.Equal(t, 1540*time.Millisecond, look("mallory", 0), "nobody else wants to")
		require.NoError(t, s.look(t.Context(), nil, get, func() error { return nil }), "what is for everybody waits for nobody")
		synctest.Wait()
		require.Empty(t, s.looks.own.tenants)
		require.Empty(t, s.looks.all.tenants)
	})
}

// Who looks, calculates, and sends large inputs, all at once and without end, has no more
// of the processors than who does one of these.
func TestWorkIsCountedTogether(t *testing.T) {
	t.Parallel()
	const piece, span = 10 * time.Millisecond, 20 * time.Second
	c := &Caller{Key: &store.Key{Tenant: "mallory"}}
	kinds := map[string]func(ctx context.Context, s *Server, work func() error) error{
		"looks": func(ctx context.Context, s *Server, work func() error) error {
			return s.look(ctx, c, &Route{Method: http.MethodGet}, work)
		},
		"guests": func(ctx context.Context, s *Server, work func() error) error {
			done, err := s.guests.turn(ctx, "mallory")
			if err != nil {
				return err
			}
			defer done()
			return work()
		},
		"inputs": func(ctx context.Context, s *Server, work func() error) error {
			return s.read(ctx, &Caller{Key: c.Key}, largeInput+1, work)
		},
	}
	had := func(t *testing.T, names ...string) (share float64) {
		synctest.Test(t, func(t *testing.T) {
			s := working()
			ctx, cancel := context.WithTimeout(t.Context(), span)
			defer cancel()
			var took atomic.Int64
			var all sync.WaitGroup
			for _, name := range names {
				all.Go(func() {
					for kinds[name](ctx, s, func() error {
						time.Sleep(piece)
						took.Add(int64(piece))
						return nil
					}) == nil && ctx.Err() == nil {
					}
				})
			}
			all.Wait()
			time.Sleep(mostRest) // the last one's
			share = float64(took.Load()-int64(workBurst)) / float64(span)
		})
		return share
	}
	for name := range kinds {
		require.InDelta(t, 0.25, had(t, name), 0.03, name)
	}
	require.InDelta(t, 0.25, had(t, "looks", "guests", "inputs"), 0.08)
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

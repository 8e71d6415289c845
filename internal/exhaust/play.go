package exhaust

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A Report describes the behavior of the server under a composition.
type Report struct {
	Runs    int             // number of started runs
	Refused int             // number of runs that a quota or the overloaded server rejected
	Cancel  []time.Duration // for each canceled run, the time from the request to cancel it to its end
	Peak    int64           // largest resident memory of the server's process, bytes
	Served  int             // number of finished runs of the neighbor
	Longest time.Duration   // duration of the longest run of the neighbor
}

// A player plays compositions on a server that also serves a neighbor.
type player struct {
	server   *Server
	wasm     []byte
	neighbor *tenant
}

// newPlayer creates the neighbor, an honest tenant with one agent.
func newPlayer(ctx context.Context, s *Server, wasm []byte) (*player, error) {
	n, err := s.tenant(ctx, "neighbour", nil)
	if err == nil {
		err = n.put(ctx, "honest", (&Composition{Copies: 1, Model: "quick"}).agentFile(), wasm)
	}
	if err == nil {
		_, err = n.finish(ctx, "honest") // compiles the module
	}
	return &player{s, wasm, n}, err
}

// play plays a composition for the duration d, cancels its runs, and deletes its tenant.
func (p *player) play(ctx context.Context, c *Composition, d time.Duration) (*Report, error) {
	var quota map[string]int64
	if c.Quotas {
		quota = quotas
	}
	t, err := p.server.tenant(ctx, fmt.Sprint("t", c.Seed), quota)
	if err != nil {
		return nil, err
	}
	if err := t.put(ctx, "main", c.agentFile(), p.wasm); err != nil {
		return nil, err
	}
	report := &Report{}
	attack := &attack{tenant: t, client: c.Client}
	during, stop := context.WithTimeout(ctx, d)
	defer stop()
	var all sync.WaitGroup
	for range c.Runs {
		all.Go(func() { attack.again(during) })
	}
	all.Go(func() { p.watch(during, report) })
	failed := p.serve(during, report)
	stop()
	all.Wait()
	if report.Runs, report.Refused = attack.counts(); attack.err != nil {
		failed = errors.Join(failed, attack.err)
	}
	if report.Cancel, err = t.cancelAll(ctx); err != nil {
		failed = errors.Join(failed, fmt.Errorf("cancel: %w", err))
	}
	if err := p.delete(ctx, t); err != nil {
		failed = errors.Join(failed, fmt.Errorf("delete the tenant: %w", err))
	}
	return report, errors.Join(failed, p.server.Alive())
}

// delete deletes a tenant, which may take several requests if it has much data.
func (p *player) delete(ctx context.Context, t *tenant) error {
	for {
		err := p.server.call(ctx, "DELETE", "/v1/tenants/"+t.id, p.server.operator, nil, nil)
		if status(err) != http.StatusConflict || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// watch records the largest resident memory until ctx is done.
func (p *player) watch(ctx context.Context, r *Report) {
	for ctx.Err() == nil {
		r.Peak = max(r.Peak, p.server.memory("VmRSS"))
		time.Sleep(20 * time.Millisecond)
	}
}

// serve runs the neighbor's agent until ctx is done. It waits for the last run, and returns an
// error if a run fails. It tries again if the overloaded server rejects a run.
func (p *player) serve(ctx context.Context, r *Report) error {
	for ctx.Err() == nil {
		began := time.Now()
		got, err := p.neighbor.finish(context.WithoutCancel(ctx), "honest")
		switch took := time.Since(began); {
		case status(err) == http.StatusServiceUnavailable:
			time.Sleep(100 * time.Millisecond)
			continue
		case err != nil:
			return fmt.Errorf("the neighbor: %w", err)
		case got.FinishReason != "stop":
			return fmt.Errorf("the neighbor's run ended with %s: %s", got.FinishReason, got.Error)
		default:
			r.Served++
			r.Longest = max(r.Longest, took)
		}
	}
	return nil
}

// An attack starts runs of the agent main, and follows them in the way that client names; see [clients].
type attack struct {
	*tenant
	client string

	mu      sync.Mutex
	runs    int
	refused int
	err     error // the first unexpected response; nil if there was none
}

// again starts runs sequentially until ctx is done.
func (a *attack) again(ctx context.Context) {
	for ctx.Err() == nil {
		err := a.follow(ctx)
		a.note(ctx, err)
		if err != nil {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}

// note records the result of following a run, given the error of the request to start it: a started
// run, a rejected run, or an unexpected error.
func (a *attack) note(ctx context.Context, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch code := status(err); {
	case err == nil:
		a.runs++
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		a.refused++
	case code >= 500, code == 0 && ctx.Err() == nil:
		a.err = err
	}
}

func (a *attack) counts() (runs, refused int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runs, a.refused
}

// follow starts a run and follows it with the attack's client until the run ends or ctx is done. It
// returns the error of the request to start the run.
func (a *attack) follow(ctx context.Context) error {
	switch a.client {
	case "agui":
		return a.stream(
			ctx,
			"/v1/agents/main/agui",
			map[string]any{
				"threadId": "t",
				"runId":    "r",
				"messages": []any{map[string]any{"id": "1", "role": "user", "content": "Go."}},
			},
		)
	case "chat":
		return a.stream(
			ctx,
			"/v1/chat/completions",
			map[string]any{"model": "main", "stream": true, "messages": []any{map[string]any{"role": "user", "content": "Go."}}},
		)
	}
	r, err := a.start(ctx, "main")
	if err != nil {
		return err
	}
	if a.client == "events" {
		res, err := a.server.request(ctx, "GET", "/v1/runs/"+r.ID+"/events/stream", a.key, nil)
		if err != nil {
			return nil //nolint:nilerr // the run has begun
		}
		defer res.Body.Close()
		slowly(ctx, res.Body)
		return nil
	}
	for ctx.Err() == nil && (r.Status == "running" || r.Status == "queued") {
		time.Sleep(100 * time.Millisecond)
		if r, err = a.run(ctx, r.ID); err != nil {
			return nil //nolint:nilerr // the run has begun
		}
	}
	return nil
}

// stream starts a run, and reads the events of the response slowly.
func (a *attack) stream(ctx context.Context, path string, in any) error {
	res, err := a.server.request(ctx, "POST", path, a.key, encode(in))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		b, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		return fmt.Errorf("POST %s: %w", path, &statusError{res.StatusCode, string(b)})
	}
	slowly(ctx, res.Body)
	return nil
}

// slowly reads up to 4 KiB every 50 ms until the response ends or ctx is done.
func slowly(ctx context.Context, r io.Reader) {
	b := make([]byte, 4<<10)
	for ctx.Err() == nil {
		if _, err := r.Read(b); err != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// cancelTimeout bounds the time until many runs that are canceled together have ended. It is far
// above the goal, which TestFlood measures, because other compositions load the machine.
const cancelTimeout = 30 * time.Second

// cancelAll cancels the tenant's running runs, at most 100, and returns the time until each has
// ended.
func (t *tenant) cancelAll(ctx context.Context) ([]time.Duration, error) {
	var list struct {
		Runs []*run `json:"runs"`
	}
	if err := t.server.call(ctx, "GET", "/v1/runs?limit=100&status=running", t.key, nil, &list); err != nil {
		return nil, err
	}
	took := make([]time.Duration, len(list.Runs))
	errs := make([]error, len(list.Runs))
	var all sync.WaitGroup
	for i, r := range list.Runs {
		all.Go(func() { took[i], errs[i] = t.cancel(ctx, r.ID) })
	}
	all.Wait()
	return took, errors.Join(errs...)
}

// cancel cancels a run and returns the time until it has ended. It retries requests that the
// tenant's request rate rejects.
func (t *tenant) cancel(ctx context.Context, id string) (time.Duration, error) {
	began := time.Now()
	for canceled := false; time.Since(began) < cancelTimeout; time.Sleep(10 * time.Millisecond) {
		if !canceled {
			err := t.server.call(ctx, "POST", "/v1/runs/"+id+"/cancel", t.key, nil, nil)
			if code := status(err); err != nil && code != http.StatusConflict && code != http.StatusTooManyRequests {
				return 0, err
			}
			canceled = status(err) != http.StatusTooManyRequests
		}
		switch r, err := t.run(ctx, id); {
		case status(err) == http.StatusTooManyRequests:
			time.Sleep(200 * time.Millisecond)
		case err != nil || r.Status == "finished":
			return time.Since(began), err
		}
	}
	return 0, fmt.Errorf("run %s has not ended %v after it was canceled", id, cancelTimeout)
}

// percentile returns the p-th percentile of durations, or 0 if there are none.
func percentile(of []time.Duration, p int) time.Duration {
	if len(of) == 0 {
		return 0
	}
	of = slices.Sorted(slices.Values(of))
	return of[min(len(of)-1, len(of)*p/100)]
}

package httpapi

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/store"
)

// Times of ending the requests of end users whose tokens end.
const (
	tokenInterval = 5 * time.Second // between two queries for the tokens of the requests in flight
	// tokenGrace is the time for which requests in flight continue after their token expires, so that an
	// answer that is almost complete is not cut. A deleted token has no grace.
	tokenGrace = time.Minute
)

// tokenRequests holds the requests in flight that tokens of end users authorize.
type tokenRequests struct {
	mu  sync.Mutex
	all map[string]map[*context.CancelCauseFunc]bool // the cancel functions by the tokens' ids
}

// enter adds a request with a token. The returned context is canceled if the token ends. leave removes the
// request.
func (t *tokenRequests) enter(ctx context.Context, token string) (_ context.Context, leave func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all[token] == nil {
		if t.all == nil {
			t.all = map[string]map[*context.CancelCauseFunc]bool{}
		}
		t.all[token] = map[*context.CancelCauseFunc]bool{}
	}
	t.all[token][&cancel] = true
	return ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.all[token], &cancel)
		if len(t.all[token]) == 0 {
			delete(t.all, token)
		}
		cancel(nil)
	}
}

// check cancels the requests of tokens that have ended.
func (t *tokenRequests) check(ctx context.Context, s store.Store) error {
	t.mu.Lock()
	ids := slices.Collect(maps.Keys(t.all))
	t.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	ended, err := s.EndedTokens(ctx, ids, tokenGrace)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ended {
		for cancel := range t.all[id] {
			(*cancel)(unauthorized("token " + id + " has ended; get a new token"))
		}
	}
	return err
}

// WatchTokens ends the requests of end users whose tokens were deleted or have expired, or whose tokens' key was
// revoked or has expired, until ctx is done. Handlers see such a request as one whose client has disconnected.
// A request ends at most about 5 s after its token was deleted, and a minute later after it expired. While the
// database does not answer, requests continue.
func (rt *Router) WatchTokens(ctx context.Context) {
	ticker := time.NewTicker(tokenInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := rt.CheckTokens(ctx); err != nil && ctx.Err() == nil {
			rt.log.Error("look for tokens of end users that have ended", "error", err)
		}
	}
}

// CheckTokens ends requests as [Router.WatchTokens] does, once.
func (rt *Router) CheckTokens(ctx context.Context) error { return rt.tokens.check(ctx, rt.store) }

// endOf returns the [*Problem] with which a request's context was canceled, or else err, the error of its handler.
func endOf(ctx context.Context, err error) error {
	if p, ok := errors.AsType[*Problem](context.Cause(ctx)); ok {
		return p
	}
	return err
}

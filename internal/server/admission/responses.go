package admission

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/account"
)

// Limits of responses in memory. A response is in memory until its client has read it, or its time
// to write is over.
const (
	MaxResponseBytes = 64 << 20 // of a tenant
	SmallResponse    = 32 << 10 // bytes of each response that do not count
)

// Responses counts what the responses to each tenant hold in memory while they are written.
type Responses struct {
	mu      sync.Mutex
	tenants map[string]*tenantResponses
}

// A tenantResponses is the account of a tenant's responses and the number of responses that use it.
type tenantResponses struct {
	account *account.Account
	users   int
}

func newResponses() *Responses { return &Responses{tenants: map[string]*tenantResponses{}} }

// load returns the bytes that the responses to a tenant hold.
func (r *Responses) load(tenant string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tenants[tenant]; t != nil {
		return t.account.Used()
	}
	return 0
}

// Open returns a response to a tenant, which holds nothing yet. The caller must close it.
func (r *Responses) Open(tenant string) *Response { return &Response{of: r, tenant: tenant} }

// A Response counts what one response holds in memory. It is not safe for concurrent use.
type Response struct {
	of     *Responses
	tenant string
	share  *tenantResponses // set if the response ever held bytes
	held   int64
}

// counted returns the part of a response's bytes that counts. A response that exceeds the limit of
// its tenant fits if it is the only one.
func counted(bytes int) int64 { return min(max(0, int64(bytes)-SmallResponse), MaxResponseBytes) }

// Set sets the number of bytes that the response holds. It fails with a [*QuotaError], and changes
// nothing, if the responses to the tenant would hold too much. Shrinking never fails.
func (r *Response) Set(bytes int) error { return r.set(counted(bytes)) }

// Cover raises the number of bytes that the response holds until undo is called, unless it holds as
// many. It fails as Set does.
func (r *Response) Cover(bytes int) (undo func(), err error) {
	n, before := counted(bytes), r.held
	if n <= before {
		return func() {}, nil
	}
	return func() { _ = r.set(before) }, r.set(n)
}

// Wait releases what the response holds, and waits until it can hold the given number of bytes,
// which it then holds. It calls beat at each interval. It fails with the cause of ctx.
func (r *Response) Wait(ctx context.Context, bytes int, interval time.Duration, beat func()) error {
	_ = r.set(0)
	n := counted(bytes)
	a := r.account()
	done := make(chan error, 1)
	go func() { done <- a.Reserve(ctx, n) }()
	pulse := time.NewTicker(interval)
	defer pulse.Stop()
	for {
		select {
		case err := <-done:
			if err == nil {
				r.held = n
			}
			return err
		case <-pulse.C:
			beat()
		}
	}
}

// Close releases what the response holds.
func (r *Response) Close() {
	_ = r.set(0)
	if r.share == nil {
		return
	}
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.share.users--; r.share.users == 0 {
		delete(r.of.tenants, r.tenant)
		r.share.account.Close()
	}
	r.share = nil
}

func (r *Response) set(n int64) error {
	switch {
	case n > r.held:
		if a := r.account(); a.TryReserve(n-r.held) != nil {
			return &QuotaError{
				"response_bytes",
				time.Second,
				fmt.Sprintf(
					"responses to this tenant hold %d bytes, of at most %d, and %d more do not fit; read the responses, or send fewer requests at once",
					a.Used(),
					MaxResponseBytes,
					n-r.held,
				),
			}
		}
	case n < r.held:
		r.account().Release(r.held - n)
	}
	r.held = n
	return nil
}

// account returns the account of the tenant's responses.
func (r *Response) account() *account.Account {
	if r.share != nil {
		return r.share.account
	}
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	t := r.of.tenants[r.tenant]
	if t == nil {
		t = &tenantResponses{account: account.NewDraining(account.LevelTenant, r.tenant, nil, MaxResponseBytes)}
		r.of.tenants[r.tenant] = t
	}
	t.users++
	r.share = t
	return t.account
}

package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/internal/account"
)

// Limits on responses in memory. A response is in memory until its client has read it, or the time
// for writing it is over.
const (
	MaxResponseBytes = 64 << 20 // of all responses to one tenant
	SmallResponse    = 32 << 10 // bytes of each response that do not count

	// All responses together may hold 1/responsesPart of the memory that the process's runs may
	// use. Those to one tenant may hold 1/tenantResponsesPart of that, but at most MaxResponseBytes.
	responsesPart       = 4
	tenantResponsesPart = 4

	// maxResponseRetry caps the Retry-After of a request whose response does not fit. Stalled
	// clients of streams are disconnected after this time.
	maxResponseRetry = 30 * time.Second
)

// Responses counts the bytes that the responses to each tenant hold in memory while they are
// written.
type Responses struct {
	all      *account.Account
	limit    int64            // bytes that the responses to one tenant may hold
	accounts *account.Tenants // children of all
}

// newResponses returns the counters of a process whose runs may use the given number of bytes of
// memory. If runs is 0, there is no limit for all responses together, and each tenant may hold
// MaxResponseBytes.
func newResponses(runs int64) *Responses {
	limit := runs / responsesPart
	r := &Responses{limit: MaxResponseBytes, all: account.NewDraining(account.LevelProcess, "responses", nil, limit)}
	if limit > 0 {
		r.limit = min(r.limit, limit/tenantResponsesPart)
	}
	r.accounts = account.NewTenants(func(tenant string) *account.Account {
		return account.NewDraining(account.LevelTenant, tenant, r.all, r.limit)
	})
	return r
}

// Open returns a response to a tenant, which holds nothing yet. The caller must close it.
func (r *Responses) Open(tenant string) *Response { return &Response{of: r, tenant: tenant} }

// A Response counts the bytes that one response holds in memory. It is not safe for concurrent use.
type Response struct {
	of      *Responses
	tenant  string
	account *account.Account // of the tenant; nil until the response first uses it
	release func()           // ends the use of account
	held    int64
}

// counted returns how many of a response's bytes count: those above SmallResponse, but at most the
// tenant's limit. A response that exceeds the limit therefore fits if it is the tenant's only one.
func (r *Response) counted(bytes int) int64 {
	return min(max(0, int64(bytes)-SmallResponse), r.of.limit)
}

// Check fails with a [*QuotaError] if the responses to the tenant, or all responses together, have
// reached their limit, or if other responses wait for memory. The handler of a request for a large
// response calls Check before it reads any data.
func (r *Response) Check() error {
	// The tenant's account may have room in a chunk although the account of all responses is full.
	for _, a := range []*account.Account{r.use(), r.of.all} {
		if err := a.TryReserveInTurn(1); err != nil {
			return r.full(err)
		}
		a.Release(1)
	}
	return nil
}

// Set sets the number of bytes that the response holds. It fails with a [*QuotaError], and changes
// nothing, if responses would exceed a limit, or other responses wait for memory. Shrinking never
// fails.
func (r *Response) Set(bytes int) error {
	n := r.counted(bytes)
	if n <= r.held {
		r.shrink(n)
		return nil
	}
	if err := r.use().TryReserveInTurn(n - r.held); err != nil {
		return r.full(err)
	}
	r.held = n
	return nil
}

// Force sets the number of bytes that the response holds, even above the limits. It is meant for
// responses to requests that have had an effect, and for data that was read after Check.
func (r *Response) Force(bytes int) {
	n := r.counted(bytes)
	if n <= r.held {
		r.shrink(n)
		return
	}
	r.use().Force(n - r.held)
	r.held = n
}

// Cover makes the response hold at least the given number of bytes until undo is called. It may
// exceed the limits, as Force may.
func (r *Response) Cover(bytes int) (undo func()) {
	if r.counted(bytes) <= r.held {
		return func() {}
	}
	before := r.held
	r.Force(bytes)
	return func() { r.shrink(before) }
}

// Wait releases all bytes that the response holds, waits until it can hold the given number of
// bytes, and reserves them. Waiting responses are served in the order of their arrival. If the
// bytes are not free at once, Wait calls wait with a channel that is closed when the bytes are
// reserved or ctx is done. It fails with the cause of ctx if ctx is done first.
func (r *Response) Wait(
	ctx context.Context,
	bytes int,
	wait func(ctx context.Context, done <-chan struct{}) bool,
) error {
	r.shrink(0)
	if r.Set(bytes) == nil {
		return nil
	}
	n, a := r.counted(bytes), r.use()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = a.Reserve(ctx, n)
	}()
	wait(ctx, done)
	<-done
	if err == nil {
		r.held = n
	}
	return err
}

// Close releases the bytes that the response holds.
func (r *Response) Close() {
	r.shrink(0)
	if r.release != nil {
		r.release()
		r.account, r.release = nil, nil
	}
}

// shrink lowers the number of counted bytes to n.
func (r *Response) shrink(n int64) {
	r.account.Release(r.held - n)
	r.held = n
}

// use returns the account of the tenant's responses.
func (r *Response) use() *account.Account {
	if r.account == nil {
		r.account, r.release = r.of.accounts.Open(r.tenant)
	}
	return r.account
}

// full returns the [*QuotaError] for a failed reservation. RetryAfter is the time for which no
// response has fit, at least 1 s and at most maxResponseRetry. It therefore doubles with each retry
// that respects it.
func (r *Response) full(err error) error {
	whose := "responses to this tenant hold"
	limit := &account.LimitError{}
	if errors.As(err, &limit) && limit.Level == account.LevelProcess {
		whose = "the responses of this server hold"
	}
	return &QuotaError{
		"response_bytes",
		min(max(r.account.Full(), time.Second), maxResponseRetry),
		fmt.Sprintf(
			"%s %d bytes, of at most %d, and others wait or %d more do not fit; read the responses, or send fewer requests at once",
			whose,
			limit.Used,
			limit.Limit,
			limit.Want,
		),
	}
}

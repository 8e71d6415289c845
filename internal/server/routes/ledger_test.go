package routes

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A usageStore is the store of a ledger. It fails for a tenant while fail returns an error for it.
type usageStore struct {
	mu   sync.Mutex
	runs map[string]int64 // by tenant
	fail func(ctx context.Context, tenant string) error
}

func (s *usageStore) add(ctx context.Context, tenant string, rows []store.Usage) error {
	if err := s.fail(ctx, tenant); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range rows {
		s.runs[tenant] += u.Runs
	}
	return nil
}

func (s *usageStore) of(tenant string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[tenant]
}

// testLedger returns a ledger, its store, its log, and a function that waits until it writes no more.
func testLedger(
	abort <-chan struct{},
	fail func(ctx context.Context, tenant string) error,
) (l *ledger, s *usageStore, log *bytes.Buffer, wait func()) {
	s, log = &usageStore{runs: map[string]int64{}, fail: fail}, &bytes.Buffer{}
	var work sync.WaitGroup
	l = &ledger{
		store:   s.add,
		log:     slog.New(slog.NewTextHandler(log, nil)),
		start:   work.Go,
		abort:   abort,
		pending: map[string]*backlog{},
	}
	return l, s, log, work.Wait
}

func usageOf(route string, n int64) []store.Usage {
	return []store.Usage{{Agent: usagePrefix + route, Runs: n, PromptTokens: 10 * n, CompletionTokens: n}}
}

// TestLedgerRetries checks that a tenant whose usage cannot be stored delays no other tenant, that its usage
// is stored once the store works again, and that it is logged if that takes longer than usageTTL.
func TestLedgerRetries(t *testing.T) {
	t.Parallel()
	down := &database.Error{Kind: database.Unavailable, Err: fmt.Errorf("down")}
	for _, tc := range []struct {
		outage time.Duration
		stored int64
	}{{time.Minute, 3}, {usageTTL - 2*usageRetry, 3}, {usageTTL + 2*usageRetry, 0}} {
		synctest.Test(t, func(t *testing.T) {
			up := time.Now().Add(tc.outage)
			l, s, log, wait := testLedger(nil, func(_ context.Context, tenant string) error {
				if tenant == "acme" && time.Now().Before(up) {
					return down
				}
				return nil
			})
			l.add("acme", usageOf("a", 1))
			time.Sleep(time.Second / 2)
			l.add("acme", usageOf("b", 2))
			l.add("beta", usageOf("a", 5))
			time.Sleep(2 * usageRetry)
			require.EqualValues(t, 5, s.of("beta"))
			wait()
			require.Equal(t, tc.stored, s.of("acme"))
			require.Equal(t, tc.stored == 0, log.Len() > 0)
			if tc.stored == 0 {
				require.Contains(t, log.String(), "usage of routes is lost")
				require.Contains(t, log.String(), "tenant=acme rows=2 requests=3 input=30 output=3")
			}
			require.Zero(t, l.size)
		})
	}
}

// TestLedgerAborts checks that a closed abort ends an attempt in progress and the pauses between attempts, and
// that the usage that is lost is logged. Usage that arrives afterwards is stored.
func TestLedgerAborts(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(context.Context, string) error{
		"attempt": func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() },
		"pause":   func(context.Context, string) error { return &database.Error{Kind: database.Unavailable} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				abort := make(chan struct{})
				l, s, log, wait := testLedger(abort, fail)
				l.add("acme", usageOf("a", 1))
				time.Sleep(usageRetry / 2)
				l.add("acme", usageOf("a", 2))
				l.add("beta", usageOf("a", 4))
				from := time.Now()
				close(abort)
				wait()
				require.LessOrEqual(t, time.Since(from), usageAbort)
				var lost int
				for _, n := range regexp.MustCompile(`usage of routes is lost.* requests=([0-9]+)`).FindAllStringSubmatch(log.String(), -1) {
					requests, err := strconv.Atoi(n[1])
					require.NoError(t, err)
					lost += requests
				}
				require.Equal(t, 7, lost, log.String())

				s.fail = func(context.Context, string) error { return nil }
				l.add("acme", usageOf("a", 8))
				wait()
				require.EqualValues(t, 8, s.of("acme"))
			})
		})
	}
}

// TestLedgerIsBounded checks that rows beyond maxPending are logged.
func TestLedgerIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := time.Now().Add(2 * usageRetry)
		l, s, log, wait := testLedger(nil, func(context.Context, string) error {
			if time.Now().Before(up) {
				return &database.Error{Kind: database.Unavailable}
			}
			return nil
		})
		l.add("acme", usageOf("first", 1))
		synctest.Wait()
		var rows []store.Usage
		for i := range maxPending {
			rows = append(rows, usageOf(fmt.Sprint(i), 1)...)
		}
		l.add("acme", rows)
		wait()
		require.EqualValues(t, maxPending, s.of("acme"))
		require.Equal(t, 1, strings.Count(log.String(), "usage of routes is lost"))
		require.Contains(t, log.String(), "rows=1 requests=1")
	})
}

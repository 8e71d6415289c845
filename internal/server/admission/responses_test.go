package admission

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestResponsesAreBounded checks that Set and Check respect the limit of a tenant, that Cover and
// Force exceed it, and that Wait waits until another response is closed.
func TestResponsesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newResponses(0)
		one, two, other := all.Open("acme"), all.Open("acme"), all.Open("beta")
		require.NoError(t, one.Set(2*MaxResponseBytes), "the only response may have any size")
		require.NoError(t, two.Set(SmallResponse), "small responses do not count")
		var full *QuotaError
		require.ErrorAs(t, two.Set(SmallResponse+1), &full)
		require.Equal(t, "response_bytes", full.Quota)
		require.ErrorAs(t, two.Check(), &full)
		require.EqualValues(t, MaxResponseBytes, all.used("acme"))
		require.NoError(t, other.Set(1<<20), "other tenants have their own limit")
		undo := two.Cover(1 << 20)
		require.EqualValues(t, MaxResponseBytes+1<<20-SmallResponse, all.used("acme"))
		undo()
		require.EqualValues(t, MaxResponseBytes, all.used("acme"))

		go func() {
			time.Sleep(35 * time.Second)
			one.Close()
		}()
		waits := 0
		require.NoError(t, two.Wait(t.Context(), 1<<20, func(_ context.Context, done <-chan struct{}) bool {
			waits++
			<-done
			return true
		}))
		require.Equal(t, 1, waits)
		require.EqualValues(t, 1<<20-SmallResponse, all.used("acme"))
		undo = two.Cover(2 << 20)
		require.EqualValues(t, 2<<20-SmallResponse, all.used("acme"))
		undo()
		two.Force(3 << 20)
		require.EqualValues(t, 3<<20-SmallResponse, all.used("acme"))
		two.Close()
		other.Close()
		require.Zero(t, all.all.Used())
	})
}

// used returns the bytes that the responses to a tenant hold.
func (r *Responses) used(tenant string) int64 {
	a, release := r.accounts.Open(tenant)
	defer release()
	return a.Used()
}

// wait waits until done is closed, and returns true. Unlike a stream's wait, it sends nothing
// meanwhile.
func wait(_ context.Context, done <-chan struct{}) bool { <-done; return true }

// TestWaitingResponsesAreServedInOrder checks that a stream with a large event does not starve while
// many others have small ones, and that a read fails meanwhile.
func TestWaitingResponsesAreServedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newResponses(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		const streams, batch, reading = 1000, 128 << 10, time.Second
		for i := range streams {
			go func() {
				r := all.Open("acme")
				defer r.Close()
				time.Sleep(reading * time.Duration(i) / streams)
				for ctx.Err() == nil && r.Set(0) == nil && (r.Set(batch) == nil || r.Wait(ctx, batch, wait) == nil) {
					time.Sleep(reading)
				}
			}()
		}
		time.Sleep(reading)
		large, read := all.Open("acme"), all.Open("acme")
		began := time.Now()
		go func() {
			time.Sleep(reading / 10)
			require.Error(t, read.Check())
			require.Error(t, read.Set(SmallResponse+1))
			require.NoError(t, read.Set(SmallResponse))
		}()
		require.NoError(t, large.Wait(ctx, 4<<20, wait))
		require.Less(t, time.Since(began), (streams*batch/MaxResponseBytes+2)*reading)
		large.Close()
		cancel()
		synctest.Wait()
		time.Sleep(reading)
		read.Close()
	})
}

// TestRetryOfFullResponses checks that the time until a retry doubles while no response finds room.
func TestRetryOfFullResponses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newResponses(0)
		held, read := all.Open("acme"), all.Open("acme")
		require.NoError(t, held.Set(2*MaxResponseBytes))
		var retries []time.Duration
		for range 7 {
			var full *QuotaError
			require.ErrorAs(t, read.Check(), &full)
			retries = append(retries, full.RetryAfter/time.Second)
			time.Sleep(full.RetryAfter)
		}
		require.Equal(t, []time.Duration{1, 1, 2, 4, 8, 16, 30}, retries)
		held.Close()
		require.NoError(t, read.Check())
		require.NoError(t, held.Set(2*MaxResponseBytes))
		var full *QuotaError
		require.ErrorAs(t, read.Check(), &full)
		require.Equal(t, time.Second, full.RetryAfter)
	})
}

// TestResponsesOfAllTenants checks that the responses to all tenants together use at most
// 1/responsesPart of the memory of runs, and those to one tenant at most 1/tenantResponsesPart of that.
func TestResponsesOfAllTenants(t *testing.T) {
	t.Parallel()
	const total = 32 << 20
	all := newResponses(responsesPart * total)
	var held []*Response
	for i := range 2 * tenantResponsesPart {
		r := all.Open(fmt.Sprint(i))
		if err := r.Set(2 * MaxResponseBytes); err != nil {
			require.ErrorContains(t, err, "the responses of this server")
			require.ErrorContains(t, r.Check(), "the responses of this server")
			require.NoError(t, r.Set(SmallResponse))
		} else {
			held = append(held, r)
		}
	}
	require.Len(t, held, tenantResponsesPart)
	require.EqualValues(t, total, all.all.Used())
	require.Error(t, all.Open("0").Check())
	held[0].Close()
	require.NoError(t, all.Open("another").Check())
}

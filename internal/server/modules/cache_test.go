package modules

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A slowStore sends to began when it loads a module, and fails the load when it can receive from
// end. It ignores the load's ctx.
type slowStore struct {
	store.Store
	began, end chan struct{}
}

func (s *slowStore) Module(context.Context, string) ([]byte, error) {
	s.began <- struct{}{}
	<-s.end
	return nil, errors.New("no module")
}

// TestLoadKeepsItsSlot checks that the load of a module whose caller has left holds its slot until
// it ends, so that a tenant cannot start more loads by canceling its requests.
func TestLoadKeepsItsSlot(t *testing.T) {
	t.Parallel()
	s := &slowStore{began: make(chan struct{}), end: make(chan struct{})}
	m := New(&Options{Store: s, Admission: admission.New(2, time.Now, nil), Now: time.Now})
	const slots = 8
	for i := range slots {
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, _, err := m.acquire(ctx, "acme", fmt.Sprint(i), host.Limits{})
			left <- err
		}()
		<-s.began
		leave()
		require.ErrorIs(t, <-left, context.Canceled)
	}

	next := make(chan error)
	go func() {
		_, _, err := m.acquire(t.Context(), "acme", "next", host.Limits{})
		next <- err
	}()
	select {
	case <-s.began:
		t.Error("the next load began before another one ended")
	case <-time.After(50 * time.Millisecond):
	}
	close(s.end)
	<-s.began
	require.ErrorContains(t, <-next, "no module")
}

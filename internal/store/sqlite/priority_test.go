package sqlite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

func TestPriorityWritesGoFirst(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), openTest(t)
	started, proceed := make(chan struct{}), make(chan struct{})
	done := make(chan error, 3)
	go func() {
		done <- d.Update(ctx, database.TxOptions{Lazy: true}, func(database.Tx) error {
			close(started)
			<-proceed
			return nil
		})
	}()
	<-started
	order := make(chan string, 2)
	request := func(name string, priority bool, queue chan *write) {
		go func() {
			done <- d.Update(ctx, database.TxOptions{Lazy: true, Priority: priority}, func(database.Tx) error {
				order <- name
				return nil
			})
		}()
		require.Eventually(t, func() bool { return len(queue) == 1 }, 20*time.Second, time.Millisecond)
	}
	request("data", false, d.queue)
	request("control", true, d.priority)
	close(proceed)
	for range 3 {
		require.NoError(t, <-done)
	}
	require.Equal(t, "control", <-order)
	require.Equal(t, "data", <-order)
}

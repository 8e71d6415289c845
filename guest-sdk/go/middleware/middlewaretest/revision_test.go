package middlewaretest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

// TestChangedSince checks that a stored revision tells a hook where to continue reading after the
// module's memory was reset.
func TestChangedSince(t *testing.T) {
	t.Parallel()
	looked := middleware.Local[int64]("looked")
	var from []int
	h := middlewaretest.New(middleware.Options{}, middleware.WithBeforeModelRewriteState(
		func(ctx *middleware.Context, state *middleware.State) error {
			at, _, err := looked.Get(ctx)
			if err != nil {
				return err
			}
			from = append(from, state.Messages.ChangedSince(at))
			return looked.Set(ctx, state.Messages.Revision())
		}))
	step := func(messages ...abi.Message) {
		t.Helper()
		if messages != nil {
			h.SetMessages(messages...)
		}
		require.NoError(t, h.Wipe())
		_, err := h.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{})
		require.NoError(t, err)
	}
	step(abi.User("a"), abi.User("b"))
	step() // nothing changed
	list := h.Messages()
	step(append(list, abi.User("c"))...)
	step(list[0], abi.User("d"))
	require.Equal(t, []int{0, 2, 2, 1}, from)
	require.Zero(t, h.Pulled, "nothing was read")
}

package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// TestShortagesPass checks that the error of a run that ended because of a temporary shortage of
// the host is retryable, and that it is not retryable if a module made a mistake or can never fit.
func TestShortagesPass(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want abi.Error
	}{
		"no room for an image":    {&sandbox.ImageRoomError{Bytes: 1 << 20, All: 1 << 20}, abi.Error{Code: abi.CodeUnavailable, Retryable: true, RetryAfterMS: 60_000}},
		"no room for an instance": {&sandbox.NoRoomError{Bytes: 1 << 20, All: 1 << 20}, abi.Error{Code: abi.CodeUnavailable, Retryable: true, RetryAfterMS: 60_000}},
		"more than there ever is": {&sandbox.TooLargeError{Bytes: 1 << 20, All: 1 << 10}, abi.Error{Code: abi.CodeInternal}},
		"a mistake of the module": {errors.New("unreachable"), abi.Error{Code: abi.CodeInternal}},
	} {
		got := runError(&ending.FaultError{Entry: "guard", Hook: contract.HookBeforeAgent, Cause: test.err})
		require.Contains(t, got.Message, "guard: before_agent: "+test.err.Error(), name)
		require.Equal(t, test.want.Retryable, strings.Contains(got.Message, "run it again in a minute"), name)
		got.Message = ""
		require.Equal(t, test.want, *got, name)
	}
	late := runError(&AdmissionError{&sandbox.NoRoomError{Bytes: 1 << 20, All: 1 << 20}})
	require.Equal(t, abi.CodeLimit, late.Code)
	require.True(t, late.Retryable)
	require.False(t, runError(&AdmissionError{&sandbox.TooLargeError{Bytes: 1 << 20, All: 1 << 10}}).Retryable)
}

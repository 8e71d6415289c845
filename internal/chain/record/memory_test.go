package record

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/size"
)

func TestTheRecordHasALimit(t *testing.T) {
	t.Parallel()
	r := New()
	for range 16 {
		require.NoError(t, r.Reserve(maxRecord/16-recordOverhead))
	}
	var fault *ending.FaultError
	require.ErrorAs(t, r.Reserve(0), &fault)
	require.Equal(t, "record_bytes", fault.Limit)
	require.EqualValues(t, maxRecord, fault.Value)
	require.NoError(t, New().Reserve(0), "each phase has its own")
}

func TestAnswersOfToolsAndModelCount(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	r := New()
	require.Nil(t, r.ReserveAnswer("a", abi.TextResult(long)))
	require.EqualValues(t, 1000+size.Overhead, r.bytes)
	require.Nil(
		t,
		r.ReserveAnswer(
			"b",
			&abi.Response{
				Message: abi.Message{
					Role:             abi.RoleAssistant,
					ReasoningContent: long,
					ToolCalls:        []abi.ToolCall{abi.NewToolCall("1", "t", long)},
				},
			},
		),
	)
	require.EqualValues(t, 3000+3*size.Overhead, r.bytes)
	run := account.New(account.LevelRun, "r", nil, 1<<20)
	r.BeginPass(r, account.NewShare(run))
	full := r.ReserveAnswer("the result of t", abi.TextResult(strings.Repeat("x", 1<<20)))
	require.Equal(t, abi.CodeLimit, full.Code)
	require.Contains(t, full.Message, "the result of t: memory limit: the run holds")
	require.EqualValues(t, 3000+3*size.Overhead, r.bytes)
}

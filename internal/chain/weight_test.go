package chain

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
)

func TestTheRecordHasALimit(t *testing.T) {
	t.Parallel()
	r := NewRecord()
	for range 16 {
		require.NoError(t, r.hold(maxRecord/16-keptBeside))
	}
	var fault *Fault
	require.ErrorAs(t, r.hold(0), &fault)
	require.Equal(t, "record_bytes", fault.Limit)
	require.EqualValues(t, maxRecord, fault.Value)
	require.NoError(t, NewRecord().hold(0), "each phase has its own")
}

func TestAnswersOfToolsAndModelCount(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	r := NewRecord()
	require.Nil(t, r.reserve("a", abi.TextResult(long)))
	require.EqualValues(t, 1000+overhead, r.bytes)
	require.Nil(t, r.reserve("b", &abi.Response{Message: abi.Message{Role: abi.RoleAssistant, ReasoningContent: long, ToolCalls: []abi.ToolCall{abi.NewToolCall("1", "t", long)}}}))
	require.EqualValues(t, 3000+3*overhead, r.bytes)
	run := account.New(account.LevelRun, "r", nil, 1<<20)
	r.count(account.NewShare(run))
	full := r.reserve("the result of t", abi.TextResult(strings.Repeat("x", 1<<20)))
	require.Equal(t, abi.CodeLimit, full.Code)
	require.Contains(t, full.Message, "the result of t: memory limit: the run holds")
	require.EqualValues(t, 3000+3*overhead, r.bytes)
}

package chain

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
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
	r.keep("a", abi.TextResult(long), verdict{})
	require.EqualValues(t, 1000+overhead, r.bytes)
	r.keep("b", &abi.Response{Message: abi.Message{Role: abi.RoleAssistant, ReasoningContent: long, ToolCalls: []abi.ToolCall{abi.NewToolCall("1", "t", long)}}}, verdict{})
	require.EqualValues(t, 3000+3*overhead, r.bytes)
	r.keep("c", &abi.BeforeModelAnswer{}, verdict{})
	require.EqualValues(t, 3000+3*overhead, r.bytes, "what hooks answer was counted before it was applied")
}

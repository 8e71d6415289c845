package invoke

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// TestSlowAnswer checks that decoding a long answer counts towards the hook's time. Short answers,
// and the time in which other processes run, must not count. Decoding 8 MB of tiny elements takes
// about 100 ms.
func TestSlowAnswer(t *testing.T) {
	t.Parallel()
	limits := policy.Limits{}
	limits.HookTime = time.Second
	inv := &Invocation{
		Limits:  &limits,
		LogFunc: func(int32, string) {},
		Output:  []byte(`{"x":[` + strings.Repeat("[],", 8<<20/3) + `0]}`),
	}
	inv.Report.Time = time.Second // used up
	var out abi.BeforeModelAnswer
	err := inv.DecodeAnswer(&out)
	var late *sandbox.FaultError
	require.ErrorAs(t, err, &late)
	require.Equal(t, sandbox.FaultTimeout, late.Kind)
	require.ErrorContains(t, err, "could not be decoded in the rest of 1s")
	require.EqualValues(t, time.Second, late.Value)

	limits.HookTime, inv.Report.Time = time.Second, 0
	look := inv.AnswerDeadline()
	time.Sleep(2 * answerGrace) // time in which other processes run does not count
	require.NoError(t, look())
	limits.HookTime = time.Nanosecond
	look = inv.AnswerDeadline()
	time.Sleep(2 * answerGrace)
	require.NoError(t, look())

	limits.HookTime = 1<<63 - 1
	require.NoError(t, inv.DecodeAnswer(&out))
	inv.Output = []byte(`{}`)
	limits.HookTime = time.Nanosecond // used up, but short answers are exempt
	require.NoError(t, inv.DecodeAnswer(&out))
}

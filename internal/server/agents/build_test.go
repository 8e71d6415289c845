package agents

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/server/policy"
)

// TestStoredStepsAreLowered checks that the max_steps of a stored agent is lowered if the tenant's
// policy allows fewer steps by the time it runs.
func TestStoredStepsAreLowered(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy, file, want int
		lowered            bool
	}{
		{0, 0, agent.DefaultMaxSteps, false},
		{0, 1000, 1000, false},
		{0, 100_000_000, 1000, true},
		{5, 0, 5, false},
		{5, 6, 5, true},
		{200_000, 100_000_000, 100_000, true},
	} {
		text := "{}"
		if tc.file > 0 {
			text = fmt.Sprintf("limits: {max_steps: %d}\nagents: [{name: a, agent: {limits: {max_steps: %[1]d}}}]", tc.file)
		}
		file, err := agentfile.Parse("helper", []byte(text))
		require.NoError(t, err)
		require.Equal(t, tc.lowered, capSteps(file, (&policy.Policy{MaxSteps: tc.policy}).StepLimit()))
		require.Equal(t, tc.want, file.Limits.MaxSteps, "%+v", tc)
		if len(file.Agents) > 0 {
			require.Equal(t, tc.want, file.Agents[0].Spec().Limits.MaxSteps, "%+v", tc)
		}
	}
	require.Equal(t, agent.MaxStepsBound, agentfile.MaxSteps)
	_, err := agent.New(&agent.Options{Model: scripted.New(), MaxSteps: agentfile.MaxSteps + 1})
	require.ErrorContains(t, err, "an agent may have 100000 steps at most, not 100001")
}

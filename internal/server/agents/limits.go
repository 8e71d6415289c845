package agents

import (
	"fmt"

	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// checkLimits rejects limits of a module that exceed the defaults. The limits determine the
// module's share of the server's memory and processors, so tenants may only lower them.
func checkLimits(f *agentfile.File, at string, l *agentfile.ModuleLimits) error {
	for _, limit := range []struct {
		name        string
		asks, limit int64
	}{
		{"timeout", int64(l.Timeout), int64(sandbox.DefaultHookTime)},
		{"memory", int64(l.Memory), sandbox.DefaultMemoryBytes},
		{"fuel", l.Fuel, sandbox.DefaultFuel},
		{"run_fuel", l.RunFuel, 100 * sandbox.DefaultFuel},
		{"stack_bytes", int64(l.StackBytes), sandbox.DefaultStackBytes},
		{"module_bytes", int64(l.ModuleBytes), sandbox.DefaultModuleBytes},
		{"input_bytes", int64(l.InputBytes), policy.DefaultInputBytes},
		{"output_bytes", int64(l.OutputBytes), policy.DefaultOutputBytes},
		{"reply_bytes", int64(l.ReplyBytes), policy.DefaultReplyBytes},
		{"log_bytes", int64(l.LogBytes), sandbox.DefaultLogBytes},
		{"log_line_bytes", int64(l.LogLineBytes), sandbox.DefaultLogLineBytes},
		{"host_calls", int64(l.HostCalls), policy.DefaultHostCalls},
		{"instances", int64(l.Instances), policy.DefaultInstances},
		{"nesting", int64(l.Nesting), sandbox.DefaultNesting},
	} {
		if limit.asks > limit.limit {
			return agentfile.ErrorAt(f,
				at+".limits."+limit.name,
				fmt.Errorf("limits.%s exceeds the default, which is the maximum for tenants of a server; remove it, or lower it",
					limit.name),
			)
		}
	}
	return nil
}

package invoke

import "github.com/agent-runner/agent-runner/internal/module/replay"

// Outcome returns the recording of what the visit did, without its clock and its host calls.
func (inv *Invocation) Recording(failed bool) replay.Recording {
	return replay.Recording{Hook: inv.Hook, Input: inv.Input, Seed: inv.RandomSeed(), Output: inv.Output, Failed: failed,
		Fuel: inv.Report.Fuel, Stopped: inv.Report.TimedOut}
}

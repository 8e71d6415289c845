package invoke

import "github.com/agent-runner/agent-runner/internal/module/replay"

// Recording returns what the invocation did, without the clock and the host calls, which its
// Recorder has.
func (inv *Invocation) Recording(failed bool) replay.Recording {
	return replay.Recording{Hook: inv.Hook, Input: inv.Input, Seed: inv.RandomSeed(), Output: inv.Output, Failed: failed,
		Fuel: inv.Report.Fuel, Stopped: inv.Report.TimedOut}
}

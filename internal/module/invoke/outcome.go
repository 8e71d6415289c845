package invoke

import "github.com/agent-runner/agent-runner/internal/module/replay"

// Recording returns the recording of the invocation without clock readings and host calls, which
// are in the Recorder. The argument failed reports whether the module answered with an error.
func (inv *Invocation) Recording(failed bool) replay.Recording {
	return replay.Recording{Hook: inv.Hook, Input: inv.Input, Seed: inv.RandomSeed(), Output: inv.Output, Failed: failed,
		Fuel: inv.Report.Fuel, Stopped: inv.Report.TimedOut}
}

package replay

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// minReplayTime is the least that a hook may run in a replay: the machine may be
// a slower one, and what ends the guest there is fuel.
const minReplayTime = time.Minute

// ReplayLimits returns the limits of the recording with a hook time that slower machines stay below:
// a call that exceeded its time ends at the fuel that it had used. Bundles of hosts that knew no fuel
// schedules were recorded under version 1.
func (b *Bundle) ReplayLimits() policy.Limits {
	l := b.Limits
	l.FuelSchedule = cmp.Or(l.FuelSchedule, 1)
	l.HookTime = max(minReplayTime, 10*min(l.HookTime, time.Hour))
	return l
}

func (b *Bundle) Incomplete() string {
	var missing []string
	if b.Dropped > 0 {
		missing = append(missing, fmt.Sprintf("%d earlier calls of the same instance, which were too large to keep; what they left in its memory is missing", b.Dropped))
	}
	if b.Call.Cut {
		missing = append(missing, "host calls of the call that faulted, which were too large to keep")
	}
	return strings.Join(missing, "; ")
}

package replay

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// minReplayTime is the minimum hook time of a replay. The machine may be slower than the one that
// recorded, and fuel ends the guest anyway.
const minReplayTime = time.Minute

// LimitsOf returns the limits of the recording, with a hook time that slower machines do not
// reach: a call that ran out of time ends at the fuel that it had used by then. Bundles without a
// fuel schedule were recorded under version 1.
func LimitsOf(b *Bundle) policy.Limits {
	l := b.Limits
	l.FuelSchedule = cmp.Or(l.FuelSchedule, 1)
	l.HookTime = max(minReplayTime, 10*min(l.HookTime, time.Hour))
	return l
}

// Incomplete says what is missing from the bundle because it was too large to keep. It returns an
// empty string if nothing is missing.
func Incomplete(b *Bundle) string {
	var missing []string
	if b.Dropped > 0 {
		missing = append(
			missing,
			fmt.Sprintf(
				"%d earlier calls of the same instance, which were too large to record; their effects on its memory are missing",
				b.Dropped,
			),
		)
	}
	if b.Call.Cut {
		missing = append(missing, "host calls of the call that faulted, which were too large to record")
	}
	return strings.Join(missing, "; ")
}

package replay

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// minReplayTime is the minimum hook time of a replay, because the machine may be slower than that
// of the recording. The fuel limit ends guests that run too long.
const minReplayTime = time.Minute

// LimitsOf returns the limits for replaying a bundle. They are the recorded limits with a longer
// hook time, so that a slower machine does not reach it. A recorded call that ran out of time ends
// in the replay at the fuel that it had used. Bundles without a fuel schedule were recorded under
// version 1.
func LimitsOf(b *Bundle) policy.Limits {
	l := b.Limits
	l.FuelSchedule = cmp.Or(l.FuelSchedule, 1)
	l.HookTime = max(minReplayTime, 10*min(l.HookTime, time.Hour))
	return l
}

// Incomplete describes the parts that are missing in the bundle because they were too large to
// keep. It returns "" if none are missing.
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

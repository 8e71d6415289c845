package builtin

import (
	"context"
	"fmt"
	"time"
	_ "time/tzdata" // embeds time zones for machines without a database of them

	"github.com/agent-runner/agent-runner/host/tool"
)

type timeArgs struct {
	Zone string `json:"zone"`
}

func newTime(clock func() time.Time) tool.Tool {
	return define(nameTime, "Tells the current date and time.", `{
  "type": "object",
  "properties": {
    "zone": {"type": "string", "description": "IANA time zone, such as Europe/Berlin or UTC. Left out: the zone of this machine."}
  },
  "additionalProperties": false
}`, func(_ context.Context, args *timeArgs) (string, error) {
		now := clock()
		if args.Zone != "" {
			zone, err := time.LoadLocation(args.Zone)
			if err != nil || args.Zone == "Local" {
				return "", fmt.Errorf(
					"there is no time zone %q; give a name of the IANA database, such as Europe/Berlin, America/New_York or UTC",
					clip(args.Zone, 100),
				)
			}
			now = now.In(zone)
		}
		name, _ := now.Zone()
		return fmt.Sprintf("%s (%s, %s)", now.Format(time.RFC3339), now.Format("Monday, 2 January 2006, 15:04:05"), name), nil
	})
}

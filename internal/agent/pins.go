package agent

import (
	"fmt"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
)

// Pins returns the modules of agent a and of the other agents that a run of a may involve. The
// Entry of another agent's module begins with that agent's name and a slash.
func Pins(a *Agent) []journal.Pin {
	var out []journal.Pin
	for _, b := range a.all() {
		prefix := ""
		if b != a {
			prefix = b.Name + "/"
		}
		for _, e := range b.Chain.Entries() {
			out = append(out, journal.Pin{
				Entry:  prefix + e.Name,
				Ring:   e.Ring.String(),
				Digest: e.Middleware.Describe().Digest,
				When:   hook.WhenText(&e.When),
			})
		}
	}
	return out
}

// checkPins returns a [*journal.PinError] if the agent's modules, or the conditions under which
// they are called, differ from those with which the run started.
func (a *Agent) checkPins(run string, want []journal.Pin) error {
	have := Pins(a)
	for i := range max(len(have), len(want)) {
		switch {
		case i >= len(have):
			return &journal.PinError{Run: run, What: fmt.Sprintf("%s is missing", want[i].Entry)}
		case i >= len(want):
			return &journal.PinError{Run: run, What: fmt.Sprintf("%s was not among them", have[i].Entry)}
		case have[i].Entry != want[i].Entry || have[i].Ring != want[i].Ring:
			return &journal.PinError{
				Run: run,
				What: fmt.Sprintf("entry %d was %s in ring %s, and is %s in ring %s",
					i+1, want[i].Entry, want[i].Ring, have[i].Entry, have[i].Ring),
			}
		case have[i].When != want[i].When:
			return &journal.PinError{
				Run:  run,
				What: fmt.Sprintf("the conditions under which %s is called (when) have changed", want[i].Entry),
			}
		case have[i].Digest != want[i].Digest:
			return &journal.PinError{
				Run:  run,
				What: fmt.Sprintf("%s was sha256:%s, and is sha256:%s", want[i].Entry, want[i].Digest, have[i].Digest),
			}
		}
	}
	return nil
}

package messages

import (
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
)

// calls are the calls and results of a message.
type calls struct {
	role           string
	calls, results []string
}

// turns returns the calls and results of each message of the request.
func (r *request) turns() []calls {
	out := make([]calls, len(r.messages))
	for i, c := range r.messages {
		out[i].role = c.role
		for k := range c.blocks {
			switch b := &c.blocks[k]; {
			case b.call != nil:
				out[i].calls = append(out[i].calls, b.call.ID)
			case b.result != nil:
				out[i].results = append(out[i].results, b.callID)
			}
		}
	}
	return out
}

// unpaired returns a description of a call without its result or a result without its call, or "". The upstream
// requires the results of all calls of an assistant in the user's next messages, and no other results. It joins
// successive messages with the same role.
func unpaired(turns []calls) string {
	open := map[string]int{}
	last := ""
	for _, t := range turns {
		if t.role == abi.RoleSystem {
			continue
		}
		if t.role == abi.RoleAssistant && last != abi.RoleAssistant {
			if problem := unanswered(open); problem != "" {
				return problem
			}
		}
		last = t.role
		for _, id := range t.calls {
			open[id]++
		}
		for _, id := range t.results {
			if open[id]--; open[id] < 0 {
				return fmt.Sprintf("result %.64q does not follow its call", id)
			}
			if open[id] == 0 {
				delete(open, id)
			}
		}
	}
	return unanswered(open)
}

// unanswered returns a description of a call in open, which has the calls without results by their IDs,
// or "".
func unanswered(open map[string]int) string {
	for id := range open {
		return fmt.Sprintf("call %.64q has no result", id)
	}
	return ""
}

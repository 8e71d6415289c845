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

// turns returns the calls and results of the request's messages.
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

// unpaired returns a problem with the pairs of calls and results, or "". The upstream wants the results
// of all calls of an assistant in the user's next messages, and no other results. It joins successive
// messages with the same role.
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

// unanswered returns the problem with a call that has no result, or "".
func unanswered(open map[string]int) string {
	for id := range open {
		return fmt.Sprintf("call %.64q has no result", id)
	}
	return ""
}

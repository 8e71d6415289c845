package main

import (
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/json"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// A round is a message and the tool messages right behind it, which are to
// answer its calls, each once. At the begin of a list there may be tool messages
// behind none.
type round struct {
	first, end int            // of the tool messages
	missing    []abi.ToolCall // calls without a result
	nameless   bool           // there are calls without an id, which cannot be answered
	surplus    []surplus      // results that answer nothing, in their order
}

// A surplus is a result without a call, or a second one of a call.
type surplus struct {
	at         int
	tool, call string
	orphan     bool
}

func (s surplus) why() string {
	if s.orphan {
		return "orphan"
	}
	return "duplicate"
}

// readRound reads the round that begins with message i.
func readRound(messages *middleware.Messages, i int) *round {
	r := &round{first: i}
	var calls []abi.ToolCall
	if m := messages.At(i); m.Role != abi.RoleTool {
		r.first++
		calls = m.ToolCalls
	}
	open := make(map[string]int, len(calls)) // by id: how many calls have no result
	for _, c := range calls {
		r.nameless = r.nameless || c.ID == ""
		open[c.ID]++
	}
	delete(open, "")
	placeholders := map[string]int{}
	for r.end = r.first; r.end < messages.Len(); r.end++ {
		m := messages.At(r.end)
		if m.Role != abi.RoleTool {
			break
		}
		left, known := open[m.ToolCallID]
		gone := surplus{at: r.end, tool: m.Name, call: m.ToolCallID, orphan: !known}
		if known && left > 0 {
			open[m.ToolCallID]--
			if synthetic(m) {
				placeholders[m.ToolCallID] = r.end
			}
			continue
		}
		// Of a placeholder and a result, the placeholder is one too many.
		if at, ok := placeholders[m.ToolCallID]; ok && !synthetic(m) {
			gone.at = at
			delete(placeholders, m.ToolCallID)
		}
		r.surplus = append(r.surplus, gone)
	}
	slices.SortFunc(r.surplus, func(a, b surplus) int { return a.at - b.at })
	for _, c := range calls {
		if open[c.ID] > 0 {
			open[c.ID]--
			r.missing = append(r.missing, c)
		}
	}
	return r
}

// synthetic reports whether the message is a placeholder of this module.
func synthetic(m abi.Message) bool {
	var extra struct {
		Synthetic bool `json:"synthetic"`
	}
	return len(m.Extra) > 0 && json.Unmarshal(m.Extra, &extra) == nil && extra.Synthetic
}

// check says what is not sound in the round that begins with message i.
func (r *round) check(i int) error {
	var faults []string
	if r.nameless {
		faults = append(faults, middleware.Sprintf("message %d has a call without an id", i))
	}
	for _, c := range r.missing {
		faults = append(faults, middleware.Sprintf("the call %s#%s of message %d has no result", c.Function.Name, c.ID, i))
	}
	for _, s := range r.surplus {
		faults = append(faults, middleware.Sprintf("message %d is a result of %s#%s: %s", s.at, s.tool, s.call, s.why()))
	}
	if len(faults) == 0 {
		return nil
	}
	return invalid("the conversation is not sound: %s; mend it, or configure without strict", strings.Join(faults, "; "))
}

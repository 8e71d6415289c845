package main

import (
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/json"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// A round is a message and the tool messages right after it, which should answer each of
// its calls once. A list may begin with tool messages that follow no message.
type round struct {
	first, end int            // the range of the tool messages
	missing    []abi.ToolCall // calls without a result
	nameless   bool           // there are calls without an id, which cannot be answered
	surplus    []surplus      // surplus results, in order
}

// A surplus is a result without a call, or another result of an answered call.
type surplus struct {
	at         int
	tool, call string
	orphan     bool
}

func (s surplus) reason() string {
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
	open := make(map[string]int, len(calls)) // number of calls without a result, by id
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
		// If a call has a placeholder and a result, the placeholder is surplus.
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

// check returns an error that lists all inconsistencies of the round that begins with
// message i.
func (r *round) check(i int) error {
	var faults []string
	if r.nameless {
		faults = append(faults, middleware.Sprintf("message %d has a call without an id", i))
	}
	for _, c := range r.missing {
		faults = append(faults, middleware.Sprintf("the call %s#%s of message %d has no result", c.Function.Name, c.ID, i))
	}
	for _, s := range r.surplus {
		faults = append(faults, middleware.Sprintf("message %d is a result of %s#%s: %s", s.at, s.tool, s.call, s.reason()))
	}
	if len(faults) == 0 {
		return nil
	}
	return invalid("the conversation is not sound: %s; mend it, or configure without strict", strings.Join(faults, "; "))
}

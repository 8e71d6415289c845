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

	placeholders map[string]surplus // the placeholders that answer a call, by the call's id
}

// A surplus is a result without a call, or another result of an answered call.
type surplus struct {
	at         int
	tool, call string
	orphan     bool
	synthetic  bool // a placeholder of this module
}

func (s surplus) reason() string {
	if s.orphan {
		return "orphan"
	}
	return "duplicate"
}

// readRound reads the round that begins with message i.
func readRound(messages *middleware.Messages, i int) *round {
	r := &round{first: i, placeholders: map[string]surplus{}}
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
	for r.end = r.first; r.end < messages.Len(); r.end++ {
		m := messages.At(r.end)
		if m.Role != abi.RoleTool {
			break
		}
		left, known := open[m.ToolCallID]
		gone := surplus{at: r.end, tool: m.Name, call: m.ToolCallID, orphan: !known, synthetic: synthetic(m)}
		if known && left > 0 {
			open[m.ToolCallID]--
			if gone.synthetic {
				r.placeholders[m.ToolCallID] = gone
			}
			continue
		}
		// If a call has a placeholder and a result, the placeholder is surplus.
		if placeholder, ok := r.placeholders[m.ToolCallID]; ok && !gone.synthetic {
			gone = placeholder
			delete(r.placeholders, m.ToolCallID)
		}
		r.surplus = append(r.surplus, gone)
	}
	r.sortSurplus()
	for _, c := range calls {
		if open[c.ID] > 0 {
			open[c.ID]--
			r.missing = append(r.missing, c)
		}
	}
	return r
}

func (r *round) sortSurplus() {
	slices.SortFunc(r.surplus, func(a, b surplus) int { return a.at - b.at })
}

// A late counts the results that other messages separate from their calls. The host moves each to
// its call before it calls the model, if the call has no other result.
type late struct {
	left    map[string]int  // number of late results in the following rounds, by the call's id
	awaited map[string]bool // ids of calls in earlier rounds that a late result answers
}

// readLate counts the late results from message i on.
func readLate(messages *middleware.Messages, i int) *late {
	l := &late{left: map[string]int{}, awaited: map[string]bool{}}
	var calls []abi.ToolCall
	for ; i < messages.Len(); i++ {
		m := messages.At(i)
		ofCall := func(c abi.ToolCall) bool { return c.ID == m.ToolCallID }
		if m.Role != abi.RoleTool {
			calls = m.ToolCalls
		} else if !slices.ContainsFunc(calls, ofCall) && !synthetic(m) {
			l.left[m.ToolCallID]++
		}
	}
	return l
}

// settle corrects the round for late results. A call that a late result answers is not missing a
// result, and its placeholder is surplus. The late result itself is not surplus.
func (l *late) settle(r *round) {
	r.surplus = slices.DeleteFunc(r.surplus, func(s surplus) bool {
		if !s.orphan || s.synthetic {
			return false
		}
		l.left[s.call]--
		awaited := l.awaited[s.call]
		delete(l.awaited, s.call)
		return awaited
	})
	r.missing = slices.DeleteFunc(r.missing, func(c abi.ToolCall) bool { return l.await(c.ID) })
	for id, placeholder := range r.placeholders {
		if l.await(id) {
			r.surplus = append(r.surplus, placeholder)
		}
	}
	r.sortSurplus()
}

// await reports whether a later result answers a call of the current round.
func (l *late) await(id string) bool {
	if l.left[id] <= 0 {
		return false
	}
	l.awaited[id] = true
	return true
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

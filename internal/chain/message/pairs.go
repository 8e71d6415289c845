package message

import (
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
)

// A Pairing has the functions with which [List.Pair] adds, moves and removes results.
type Pairing struct {
	// Answer returns the result of a call that has none. m is the message with the call.
	Answer func(c *abi.ToolCall, m *abi.Message) abi.Message
	// Moved is called with each result that Pair moves to its call.
	Moved func(result *abi.Message)
	// Orphan is called with each result that has no call, or whose call has an earlier result. It
	// returns the message that replaces the result, or nil to remove the result.
	Orphan func(result *abi.Message) *abi.Message
}

// Pair returns a list in which each tool call of l has exactly one result, directly after the
// message with the call, as model APIs require. It changes only messages from index from on, and
// the round before from. In a round that lacks results, Pair puts the results in the order of the
// calls. It keeps the order of all other results.
func (l *List) Pair(from int, p *Pairing) *List {
	if l.Paired(from) {
		return l
	}
	from = l.roundStart(from)
	rounds, owned := l.rounds(from)
	items := newItems(len(l.items))
	items = append(items, l.items[:from]...)
	for i := from; i < len(l.items); i++ {
		it := l.items[i]
		switch {
		case it.message.Role != abi.RoleTool:
			items = append(items, it)
			if r := rounds[i]; r != nil {
				items = r.appendResults(items, l, p)
			}
		case !owned[i]:
			if m := p.Orphan(&it.message); m != nil {
				items = append(items, &item{message: *m})
			}
		}
	}
	first := from
	for first < min(len(items), len(l.items)) && items[first] == l.items[first] {
		first++
	}
	if first == len(items) && first == len(l.items) {
		return l
	}
	return &List{items: items, revs: l.revs, rev: l.revs.next(l.rev, first), spare: &spare{used: len(items)}}
}

// roundStart returns the index of the last message before index i that is not a tool's result, or
// 0.
func (l *List) roundStart(i int) int {
	i--
	for i > 0 && l.items[i].message.Role == abi.RoleTool {
		i--
	}
	return max(i, 0)
}

// Paired reports whether [List.Pair] with the same index would change nothing, because each call
// has one result directly after its message, in the order of the calls.
func (l *List) Paired(from int) bool {
	for i := l.roundStart(from); i < len(l.items); i++ {
		m := &l.items[i].message
		if m.Role == abi.RoleTool {
			return false
		}
		for n := range m.ToolCalls {
			i++
			if i == len(l.items) {
				return false
			}
			if result := &l.items[i].message; result.Role != abi.RoleTool || result.ToolCallID != m.ToolCalls[n].ID {
				return false
			}
		}
	}
	return true
}

// A round is a message with tool calls, and the indices of their results.
type round struct {
	message *abi.Message
	results []int // index of the result of each call; 0 if the call has none
	end     int   // index after the tool messages that directly follow the message
}

// An open lists the calls of a round that have the same ID and no result yet.
type open struct {
	round *round
	calls []int
}

// rounds finds the result of each call in the messages from index from on. It returns the rounds by
// the index of their message, and the set of the indices of their results. A result answers the
// first open call with its ID in the last preceding message that has such a call.
func (l *List) rounds(from int) (rounds map[int]*round, owned map[int]bool) {
	rounds, owned = map[int]*round{}, map[int]bool{}
	byID := map[string]*open{}
	var current *round
	for i := from; i < len(l.items); i++ {
		m := &l.items[i].message
		if m.Role != abi.RoleTool {
			current = nil
			if len(m.ToolCalls) > 0 {
				current = &round{message: m, results: make([]int, len(m.ToolCalls)), end: i + 1}
				rounds[i] = current
			}
			for n := range m.ToolCalls {
				id := m.ToolCalls[n].ID
				if byID[id] == nil || byID[id].round != current {
					byID[id] = &open{round: current}
				}
				byID[id].calls = append(byID[id].calls, n)
			}
			continue
		}
		if current != nil {
			current.end = i + 1
		}
		if o := byID[m.ToolCallID]; o != nil && len(o.calls) > 0 {
			o.round.results[o.calls[0]] = i
			o.calls = o.calls[1:]
			owned[i] = true
		}
	}
	return rounds, owned
}

// appendResults appends the results of a round.
func (r *round) appendResults(items []*item, l *List, p *Pairing) []*item {
	results := r.results
	if !slices.ContainsFunc(results, func(i int) bool { return i == 0 || i >= r.end }) {
		results = slices.Sorted(slices.Values(results))
	}
	for n, i := range results {
		if i == 0 {
			items = append(items, &item{message: p.Answer(&r.message.ToolCalls[n], r.message)})
			continue
		}
		if i >= r.end {
			p.Moved(&l.items[i].message)
		}
		items = append(items, l.items[i])
	}
	return items
}

// CheckResults checks the rule that each tool call has exactly one result before the next message
// of an assistant, and that each result has a call. It returns an error if after, an edited copy of
// before, breaks the rule where before does not.
func CheckResults(before, after *List) error {
	from := after.Changed(before.rev)
	if from == len(after.items) && from == len(before.items) {
		return nil
	}
	for from > 0 {
		if from--; after.items[from].message.Role == abi.RoleAssistant {
			break
		}
	}
	found := after.violations(from)
	if len(found) == 0 {
		return nil
	}
	known := map[violation]int{}
	for _, v := range before.violations(from) {
		known[v]++
	}
	for _, v := range found {
		if known[v]--; known[v] < 0 {
			return v
		}
	}
	return nil
}

// A violation is a call or result that breaks the rule of [CheckResults].
type violation struct {
	kind violationKind
	id   string // of the call
}

type violationKind int

const (
	missing   violationKind = iota // a call has no result
	unknown                        // a result has no call
	duplicate                      // a call has more than one result
)

// Error describes the violation.
func (v violation) Error() string {
	id := safetext.Clip(v.id, maxQuoted)
	switch v.kind {
	case missing:
		return fmt.Sprintf("messages: the call %q has no result; every call of a round needs one", id)
	case unknown:
		return fmt.Sprintf("messages: a result has the tool_call_id %q, which no call of the last assistant message has", id)
	default:
		return fmt.Sprintf("messages: the call %q has more than one result", id)
	}
}

// maxQuoted is the maximum length of an ID in an error, in bytes.
const maxQuoted = 128

// violations returns the violations of the rule of [CheckResults] in the messages from index from
// on.
func (l *List) violations(from int) []violation {
	var out []violation
	var calls []abi.ToolCall
	open := map[string]int{} // number of calls without a result, by id
	end := func() {
		for i := range calls {
			if id := calls[i].ID; open[id] > 0 {
				open[id]--
				out = append(out, violation{missing, id})
			}
		}
		clear(open)
	}
	for _, it := range l.items[min(from, len(l.items)):] {
		switch m := &it.message; m.Role {
		case abi.RoleAssistant:
			end()
			calls = m.ToolCalls
			for i := range calls {
				open[calls[i].ID]++
			}
		case abi.RoleTool:
			left, made := open[m.ToolCallID]
			switch {
			case !made:
				out = append(out, violation{unknown, m.ToolCallID})
			case left == 0:
				out = append(out, violation{duplicate, m.ToolCallID})
			default:
				open[m.ToolCallID]--
			}
		}
	}
	end()
	return out
}

package hook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A Plan is the part of an entry that is the same in all runs: the description of the middleware,
// the hooks to call, and the circuit breaker.
type Plan struct {
	Entry
	desc    Description
	hooks   map[abi.Hook]bool
	events  map[abi.EventType]bool // event types that observe receives
	owner   local.Owner            // owner of the entry's run-local values
	breaker *breaker
}

// NewPlan returns the plan of an entry.
func NewPlan(e Entry) Plan {
	p := Plan{Entry: e, desc: e.Middleware.Describe(), hooks: map[abi.Hook]bool{}, owner: e.owner(""), breaker: &breaker{}}
	for _, h := range p.desc.Hooks {
		p.hooks[h] = e.Hooks == nil || slices.Contains(e.Hooks, h)
	}
	if p.hooks[contract.HookObserve] {
		p.events = e.observes(p.desc.Events)
	}
	return p
}

// Has reports whether the entry has hook h and the hook is to be called.
func (p *Plan) Has(h abi.Hook) bool { return p.hooks[h] }

// Scoped returns the plan for a chain of the given scope. The run-local values of the entry are
// separate from those in other scopes; see [local.NewOwner].
func (p Plan) Scoped(chain string) Plan {
	p.owner = p.Entry.owner(chain)
	return p
}

// Open prepares the entry for a run. The caller closes the member.
func (p *Plan) Open(ctx context.Context, run string) (*Member, error) {
	session, err := p.Middleware.Open(ctx, p.Name, run)
	if err != nil {
		return nil, fmt.Errorf("middleware %q: %w", p.Name, err)
	}
	return &Member{Plan: p, session: session}, nil
}

// A Member is an entry in a run.
type Member struct {
	*Plan
	session Session

	ownModel, ownTool atomic.Int64 // model and tool calls that the entry itself made
	invalidAnswers    atomic.Int64 // invalid answers, which are faults that the session does not count

	mu       sync.Mutex
	warnings []uint64 // hashes of the warnings logged by Warn
}

// maxWarnings is the maximum number of warnings of an entry that Warn logs in a run.
const maxWarnings = 64

// firstWarning reports whether the warning with the given hash must be logged, and records the
// hash.
func (m *Member) firstWarning(sum uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.warnings) == maxWarnings || slices.Contains(m.warnings, sum) {
		return false
	}
	m.warnings = append(m.warnings, sum)
	return true
}

// Close closes the member's session.
func (m *Member) Close() { m.session.Close() }

// Stats returns the statistics of the entry in this run.
func (m *Member) Stats() abi.EntryStats {
	out := m.session.Stats()
	out.Entry, out.Digest = m.Name, m.desc.Digest
	out.Faults += m.invalidAnswers.Load()
	out.ModelCalls, out.ToolCalls = m.ownModel.Load(), m.ownTool.Load()
	return out
}

// ReadsLabels reports whether the member receives the labels of messages and results.
func (m *Member) ReadsLabels() bool { return m.desc.Labels }

// Final returns last, the last message of a run, as after_agent may see it. It returns nil if last
// is nil or the member may not read it.
func (m *Member) Final(last *abi.Message) *abi.Message {
	if last == nil || m.MayRead(last) == nil {
		return nil
	}
	shown := m.Show(last)
	return &shown
}

// Show returns a message as the member may see it, with labels if the member receives labels.
func (m *Member) Show(msg *abi.Message) abi.Message {
	if m.desc.Labels {
		return message.Labelled(*msg)
	}
	return message.Unlabelled(*msg)
}

// HoldsStream reports whether the host withholds the chunks that the member's wrappers send until
// the wrappers return.
func (m *Member) HoldsStream() bool { return m.desc.HoldStream }

// Observes returns the types of events that the member's observe receives, or nil if the member has
// no observe.
func (m *Member) Observes() map[abi.EventType]bool { return m.events }

// faultOf reports whether err is a fault of the member.
func faultOf(err error, m *Member) bool {
	fault, ok := errors.AsType[*ending.FaultError](err)
	return ok && fault.Entry == m.Name
}

// ringNames lists the names of the rings from the inside out.
var ringNames = []string{Inner.String(), Tenant.String(), Outer.String()}

// owner returns the owner of the entry's run-local values in a chain of the given scope.
func (e *Entry) owner(scope string) local.Owner {
	return local.NewOwner(scope, e.Name, ringNames[Inner-e.Ring:]...)
}

// observes returns the types of events that the entry's observe receives. These are the types in
// the middleware's description or, if it has none, all types except chunks. observes leaves out
// types that the entry may not read.
func (e *Entry) observes(types []abi.EventType) map[abi.EventType]bool {
	events := map[abi.EventType]bool{}
	if types == nil {
		for _, t := range contract.EventTypes() {
			if t != abi.EventChunk {
				types = append(types, t)
			}
		}
	}
	for _, t := range types {
		switch t {
		case abi.EventChunk, abi.EventMessage, abi.EventToolCall, abi.EventToolResult, abi.EventDecision,
			abi.EventRepair:
			events[t] = e.Read == "" || e.Read == ReadAll
		default:
			events[t] = true
		}
	}
	return events
}

// MayRead returns last, the last message of a run, if the member may read it. Otherwise it returns
// nil.
func (m *Member) MayRead(last *abi.Message) *abi.Message {
	if m.Read == ReadNone {
		return nil
	}
	return last
}

package rerun

import (
	"hash/maphash"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
)

// A HookCall identifies the calls of a hook of an entry in a step of a run.
type HookCall struct {
	Run   string
	Step  int
	Entry string
	Hook  abi.Hook
}

// A HookCost holds the totals of the calls of a hook, and hashes of its answers.
type HookCost struct {
	Calls     int
	Fuel      int64
	Faults    int
	Failed    int                // calls that answered with an error
	Decisions map[Decision]int64 // decisions in its answers; nil if there are none
	Texts     int64              // texts in its answers

	answers, texts hashes
}

// ChangedAnswers returns the number of answers that differ between the calls of a hook in two passes.
func (c *HookCost) ChangedAnswers(o *HookCost) int64 { return c.answers.changed(o.answers) }

// ChangedTexts returns the number of texts in answers that differ between the calls of a hook in two passes.
func (c *HookCost) ChangedTexts(o *HookCost) int64 { return c.texts.changed(o.texts) }

// Differs reports whether the calls of a hook differ between two passes.
func (c *HookCost) Differs(o *HookCost) bool {
	return c.Calls != o.Calls || c.Fuel != o.Fuel || c.Faults != o.Faults || c.Failed != o.Failed ||
		c.ChangedAnswers(o) > 0
}

// hashes counts equal answers or texts by their hash. Their order does not matter, because hooks are
// called concurrently.
type hashes map[uint64]int64

// changed returns the number of items that differ between h and o. An item that another item replaces
// counts once.
func (h hashes) changed(o hashes) int64 {
	var removed, added int64
	for sum, n := range h {
		removed += max(0, n-o[sum])
	}
	for sum, n := range o {
		added += max(0, n-h[sum])
	}
	return max(removed, added)
}

// maxHashes limits the hashes that a pass holds. Further answers and texts have the hash 0, so that only their
// number is compared.
const maxHashes = 100_000

// Hooks returns the hook calls of the replay.
func (r *Pass) Hooks() map[HookCall]*HookCost { return r.hooks }

// count adds a hook call to the totals of its hook.
func (r *Pass) count(op *tracing.Operation, o *tracing.Outcome) {
	var answer []byte
	var texts []string
	var decisions []Decision
	if o.Answer != nil {
		answer, _ = abijson.Marshal(o.Answer)
		texts, decisions = describe(o.Answer)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := HookCall{op.Run.ID, op.Run.Step, op.Entry, op.Hook}
	cost := r.hooks[at]
	if cost == nil {
		cost = &HookCost{answers: hashes{}, texts: hashes{}}
		r.hooks[at] = cost
	}
	cost.Calls++
	cost.Fuel += o.Fuel
	if o.Fault {
		cost.Faults++
	}
	if o.Failed != nil {
		cost.Failed++
	}
	if o.Answer != nil {
		r.hash(cost.answers, maphash.Bytes(r.seed, answer))
	}
	for _, text := range texts {
		cost.Texts++
		r.hash(cost.texts, maphash.String(r.seed, text))
	}
	for _, d := range decisions {
		if cost.Decisions == nil {
			cost.Decisions = map[Decision]int64{}
		}
		cost.Decisions[d]++
	}
}

// hash adds a hash to h. The caller holds mu.
func (r *Pass) hash(h hashes, sum uint64) {
	if h[sum] == 0 {
		if r.hashes == maxHashes {
			sum = 0
		} else {
			r.hashes++
		}
	}
	h[sum]++
}

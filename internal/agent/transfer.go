package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/suggest"
)

// TransferTool is the name of the tool that transfers the conversation to another agent.
const TransferTool = "transfer_to_agent"

// AllowTransfer gives the agent a tool that transfers the conversation to one of the agents in to.
// It may be called once, before the agent's first run. It returns an error if to is empty, if the
// agent has a tool called [TransferTool], or if two reachable agents have the same name.
//
// A transfer is an ordinary tool call: hooks observe the call, and gates can deny it. After the
// call's round, the agent's after_agent hooks run with the finish reason [abi.RunTransfer]. The run
// then continues with the other agent's model, instruction, tools and chain, starting with
// before_agent. It keeps its messages. Each agent has its own run-local values, and finds them
// again after a transfer back. All agents share the values whose keys begin with "run/". The limits
// are those of the agent with which the run started.
func (a *Agent) AllowTransfer(to ...*Agent) error {
	if len(to) == 0 || a.tools[TransferTool] != nil {
		return fmt.Errorf("agent %q: transfers are allowed once, to at least one agent, and no tool is named %s",
			a.Name, TransferTool)
	}
	a.transfers = slices.Clone(to)
	names := map[string]bool{}
	for _, b := range a.reach() {
		if names[b.Name] {
			a.transfers = nil
			return fmt.Errorf("agent %q can transfer to two agents named %q; rename one of them", a.Name, b.Name)
		}
		names[b.Name] = true
	}
	t := transferTool(to)
	a.Tools, a.tools[TransferTool] = append(a.Tools, t), t
	return nil
}

// reach returns the agent and all agents to which it can transfer a conversation, directly or
// through other agents.
func (a *Agent) reach() []*Agent {
	out := []*Agent{a}
	for i := 0; i < len(out); i++ {
		for _, b := range out[i].transfers {
			if !slices.Contains(out, b) {
				out = append(out, b)
			}
		}
	}
	return out
}

// all returns the agent and all agents that its runs may involve, by transfer or as tools.
func (a *Agent) all() []*Agent {
	out := []*Agent{a}
	add := func(b *Agent) {
		if !slices.Contains(out, b) {
			out = append(out, b)
		}
	}
	for i := 0; i < len(out); i++ {
		for _, b := range out[i].transfers {
			add(b)
		}
		for _, t := range out[i].Tools {
			if inner, ok := t.(*agentTool); ok {
				add(inner.agent)
			}
		}
	}
	return out
}

// find returns the reachable agent called name, or nil.
func (a *Agent) find(name string) *Agent {
	for _, b := range a.reach() {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// A transferTool transfers the conversation to one of its agents. It records the agent's name in
// the state of its call.
type transferTool []*Agent

func (t transferTool) Declaration() abi.Tool {
	var text strings.Builder
	text.WriteString("Transfers the conversation to another agent, which then answers instead of you:")
	names := make([]string, len(t))
	for i, a := range t {
		names[i] = a.Name
		fmt.Fprintf(&text, "\n- %s", a.Name)
		if a.Description != "" {
			text.WriteString(": " + a.Description)
		}
	}
	enum, _ := abijson.Marshal(names)
	// The tool is idempotent, since a repeated call has no further effect.
	return abi.Tool{Name: TransferTool, Idempotent: true, Description: text.String(), Parameters: json.RawMessage(
		`{"type":"object","properties":{"agent":{"type":"string","enum":` + string(enum) + `}},"required":["agent"]}`)}
}

// Call requests the transfer, which takes place at the end of the round.
func (t transferTool) Call(ctx context.Context, call abi.Call) (*abi.Result, error) {
	from, _ := ctx.Value(callerKey{}).(*caller)
	if from == nil || from.call == nil {
		return nil, &abi.Error{Code: abi.CodeDenied, Message: "only a model can transfer its conversation"}
	}
	var in struct {
		Agent string `json:"agent"`
	}
	if err := json.Unmarshal([]byte(call.Arguments), &in); err != nil {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: `want {"agent": "its name"}`}
	}
	names := make([]string, len(t))
	for i, a := range t {
		names[i] = a.Name
	}
	if !slices.Contains(names, in.Agent) {
		text := fmt.Sprintf("There is no agent %q.", in.Agent)
		if near := suggest.Closest(in.Agent, names); len(near) > 0 {
			text += fmt.Sprintf(" Did you mean %s?", strings.Join(near, ", "))
		}
		return abi.ErrorResult(text + " Available agents: " + strings.Join(names, ", ") + "."), nil
	}
	if from.run.transfersBefore(from.call) {
		return abi.ErrorResult("The conversation can be transferred to one agent only: the first of these calls counts."), nil
	}
	from.run.persistCall(from.run.indexOf(from.call), func() { from.call.Transfer = in.Agent })
	return abi.TextResult("The conversation continues with " + in.Agent + "."), nil
}

// transfersBefore reports whether an earlier call of c's round is a transfer.
func (r *run) transfersBefore(c *runlog.CallState) bool {
	for i := range r.indexOf(c) {
		if r.state.Calls[i].Call.Name == TransferTool {
			return true
		}
	}
	return false
}

// transferTo returns the agent to which the finished round transfers the run, or nil.
func (r *run) transferTo() *Agent {
	for i := range r.state.Calls {
		if c := &r.state.Calls[i]; c.Transfer != "" && !c.Result.IsError {
			return r.root.find(c.Transfer)
		}
	}
	return nil
}

// switchAgent ends the current agent's part of the run and starts the next agent's. If the next
// agent is not reachable, the current agent continues.
func (r *run) switchAgent(ctx context.Context) (runlog.Phase, error) {
	s, to := &r.state, r.transferTo()
	if to == nil { // the agents have changed since the run started
		return runlog.PhaseStep, nil
	}
	r.chain.AfterAgent(ctx,
		chain.End{Messages: s.Messages, NewFrom: r.newFrom(), FinishReason: abi.RunTransfer, Usage: s.Usage})
	r.emit(abi.Event{Type: abi.EventTransfer, From: r.agent.Name, Agent: to.Name, Model: to.ModelName})
	r.observe(ctx)
	within, err := r.admit(ctx, to)
	if err != nil {
		return "", err
	}
	r.within = within
	next, err := r.open(ctx, to)
	if err != nil {
		return "", err
	}
	old := r.chain
	r.past = append(r.past, statsOf(r.agent.Name, old)...)
	next.Streams().Store(old.Streams().Load())
	r.out.Lock()
	r.chain = next
	r.out.Unlock()
	r.mu.Lock()
	r.agent, s.Agent = to, to.Name
	r.mu.Unlock()
	if r.recorder != nil {
		r.recorder.attach(next)
	}
	old.Close()
	r.equip(to)
	return runlog.PhaseStart, nil
}

// equip sets the instruction and the tools in the state to those of agent a.
func (r *run) equip(a *Agent) {
	s := &r.state
	s.Instruction, s.ReturnDirectly, s.Respond, r.system = a.Instruction, a.ReturnDirectly, nil, nil
	s.Model, s.InstructionLabels = nil, nil
	s.Tools, s.Active, s.Offered = nil, nil, nil
	for _, t := range a.Tools {
		d := t.Declaration()
		d.Owner = "host"
		s.Tools = append(s.Tools, d)
		s.Active = append(s.Active, d.Name)
	}
}

// open opens the chain of an agent for the run. Agents other than the first have separate run-local
// values.
func (r *run) open(ctx context.Context, a *Agent) (*chain.Run, error) {
	c := a.Chain
	if a != r.root {
		c = c.Scoped(a.Name)
	}
	s := &r.state
	return c.Open(ctx, abi.Run{ID: s.ID, Agent: a.Name, Metadata: s.Metadata}, r, s.Locals)
}

// stats returns the statistics of each entry of every agent, in this process and in earlier ones.
func (r *run) stats() []abi.EntryStats { return r.meter()() }

// meter returns a function that returns the same as stats. Other goroutines may call the function
// until the next transfer.
func (r *run) meter() func() []abi.EntryStats {
	before, past, c, name := r.state.Used, slices.Clone(r.past), r.chain, r.agent.Name
	several := r.agent != r.root || past != nil ||
		slices.ContainsFunc(before, func(e abi.EntryStats) bool { return e.Agent != "" })
	if !several {
		return func() []abi.EntryStats { return addStats(before, c.Stats()) }
	}
	before = slices.Clone(before)
	for i := range before {
		before[i].Agent = cmp.Or(before[i].Agent, r.root.Name)
	}
	return func() []abi.EntryStats { return addStats(before, append(slices.Clone(past), statsOf(name, c)...)) }
}

// addStats returns the sums of two lists of statistics, by entry and agent. It modifies the
// elements of since.
func addStats(before, since []abi.EntryStats) []abi.EntryStats {
	var gone []abi.EntryStats
	for i := range before {
		b := &before[i]
		at := slices.IndexFunc(since, func(e abi.EntryStats) bool { return e.Entry == b.Entry && e.Agent == b.Agent })
		if at < 0 {
			gone = append(gone, *b)
			continue
		}
		e := &since[at]
		hooks := maps.Clone(b.Hooks)
		for h, n := range e.Hooks {
			if hooks == nil {
				hooks = map[abi.Hook]int64{}
			}
			hooks[h] += n
		}
		e.Hooks = hooks
		e.Calls += b.Calls
		e.Faults += b.Faults
		e.WallUS += b.WallUS
		e.BytesIn += b.BytesIn
		e.BytesOut += b.BytesOut
		e.Fuel += b.Fuel
		e.Instances += b.Instances
		e.ModelCalls += b.ModelCalls
		e.ToolCalls += b.ToolCalls
	}
	if gone == nil {
		return since
	}
	return append(gone, since...)
}

// statsOf returns the statistics of each entry of c, with the name of the agent.
func statsOf(agent string, c *chain.Run) []abi.EntryStats {
	out := c.Stats()
	for i := range out {
		out[i].Agent = agent
	}
	return out
}

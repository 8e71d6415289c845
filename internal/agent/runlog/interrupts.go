package runlog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// Pending returns the interrupts for which the run waits, in the order of its calls. The ID of a
// sub-agent's interrupt begins with [CallState.ChildName] of the call and a slash.
func (s *State) Pending() []abi.Pending {
	if s.Record == nil {
		return nil
	}
	waits := s.Record.Pending()
	at := func(p abi.Pending) int {
		return slices.IndexFunc(s.Calls, func(c CallState) bool { return p.Call != nil && c.Call.ID == p.Call.ID })
	}
	slices.SortStableFunc(waits, func(a, b abi.Pending) int { return at(a) - at(b) })
	var out []abi.Pending
	for _, p := range waits {
		c := s.childOf(p)
		if c == nil {
			out = append(out, p)
			continue
		}
		for _, inner := range c.Child.Pending() {
			inner.ID = c.ChildName() + "/" + inner.ID
			if inner.Run == "" {
				inner.Run, inner.Agent = c.Child.ID, c.Child.Agent
			}
			out = append(out, inner)
		}
	}
	return out
}

// ChildName returns the name of the last run that the call started: the call's ID and, from the
// second run on, "#" and the number of the run. The IDs of the run's interrupts begin with the
// name.
func (c *CallState) ChildName() string {
	if c.Runs > 1 {
		return c.Call.ID + "#" + strconv.Itoa(c.Runs)
	}
	return c.Call.ID
}

// childOf returns the call for whose sub-agent's run the interrupt p waits, or nil.
func (s *State) childOf(p abi.Pending) *CallState {
	if p.Call == nil || p.Entry != "" {
		return nil
	}
	i := slices.IndexFunc(s.Calls, func(c CallState) bool { return c.Child != nil && c.Call.ID == p.Call.ID })
	if i < 0 {
		return nil
	}
	return &s.Calls[i]
}

// Answer records answers to interrupts, including those of sub-agents, by interrupt ID. by identifies who answered,
// or is "". If an ID is unknown or an answer is invalid, Answer changes nothing and returns an error.
func (s *State) Answer(answers map[string]json.RawMessage, by string) error {
	var waiting []string
	for _, p := range s.Pending() {
		waiting = append(waiting, p.ID)
	}
	own := map[string]json.RawMessage{}
	for id, a := range answers {
		if !slices.Contains(waiting, id) {
			return fmt.Errorf("no interrupt %q waits for an answer; those that do: %s", id, strings.Join(waiting, ", "))
		}
		own[id] = a
	}
	for _, p := range s.Record.Pending() {
		c := s.childOf(p)
		if c == nil {
			continue
		}
		down := map[string]json.RawMessage{}
		for id, a := range answers {
			if rest, ok := strings.CutPrefix(id, c.ChildName()+"/"); ok {
				down[rest] = a
				delete(own, id)
			}
		}
		if len(down) == 0 {
			continue
		}
		child, err := CloneState(c.Child)
		if err == nil {
			err = child.Answer(down, by)
		}
		if err != nil {
			return fmt.Errorf("call %s: %w", c.Call.ID, err)
		}
		if own[p.ID], err = abijson.Marshal(down); err != nil {
			return err
		}
	}
	return s.Record.Answer(own, by)
}

// CloneState returns a deep copy of s. It encodes s as JSON and decodes the JSON.
func CloneState(s *State) (*State, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var out State
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

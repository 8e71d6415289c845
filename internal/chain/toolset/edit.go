package toolset

import (
	"fmt"
	"maps"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// Edit applies a patch by entry to a list of tools. It returns an error if the patch is too large,
// if it adds an invalid tool or a name that exists, or if an added name has another owner. owners
// maps the names of tools, including removed ones, to their owners.
func Edit(tools []abi.Tool, owners map[string]string, p *abi.ToolsPatch, entry string) ([]abi.Tool, error) {
	if err := CheckCount(tools, p); err != nil {
		return nil, err
	}
	add, remove := p.Add, p.Remove
	out := slices.Clone(tools)
	if p.Whole {
		out = nil
		for _, t := range p.Replace {
			if i := Index(tools, t.Name); i >= 0 {
				if err := Check(&t); err != nil {
					return nil, err
				}
				keepHosts(&t, &tools[i])
				if Index(out, t.Name) >= 0 {
					return nil, fmt.Errorf("tools: %q is duplicated", t.Name)
				}
				out = append(out, t)
				continue
			}
			add = append(add, t)
		}
	}
	out = slices.DeleteFunc(out, func(t abi.Tool) bool { return slices.Contains(remove, t.Name) })
	for _, t := range add {
		if err := Check(&t); err != nil {
			return nil, err
		}
		if Index(out, t.Name) >= 0 || Index(tools, t.Name) >= 0 && !slices.Contains(remove, t.Name) {
			return nil, fmt.Errorf("tools: %q exists already; choose another name", t.Name)
		}
		if owner, had := owners[t.Name]; had && owner != entry {
			return nil, fmt.Errorf("tools: %q belongs to %s; choose another name", t.Name, owner)
		}
		t.Owner = entry
		out = append(out, t)
	}
	if len(out) > Max && len(out) > len(tools) {
		return nil, fmt.Errorf("tools: %d tools; a run may have %d", len(out), Max)
	}
	return out, nil
}

// Max is the maximum number of tools of a run whose modules change the tools. Models accept far
// fewer.
const Max = 1024

// CheckCount returns an error if a list of the patch has more than Max+len(tools) tools. Callers
// call it before they process the lists, since each name is compared with all others.
func CheckCount(tools []abi.Tool, p *abi.ToolsPatch) error {
	if limit := Max + len(tools); len(p.Add) > limit || len(p.Remove) > limit || len(p.Replace) > limit {
		return fmt.Errorf("tools: an answer may name %d tools", limit)
	}
	return nil
}

// Check returns an error if t cannot be offered to a model.
func Check(t *abi.Tool) error {
	if err := contract.CheckTool(t); err != nil {
		return fmt.Errorf("tools: %w", err)
	}
	return nil
}

// Index returns the index of the named tool, or -1.
func Index(tools []abi.Tool, name string) int {
	return slices.IndexFunc(tools, func(t abi.Tool) bool { return t.Name == name })
}

// CheckActive returns an error if active has a duplicate or a name that no tool has.
func CheckActive(active []string, tools []abi.Tool) error {
	for i, name := range active {
		switch {
		case Index(tools, name) < 0:
			return fmt.Errorf("active: there is no tool %q", name)
		case slices.Contains(active[:i], name): // without duplicates there are at most as many names as tools
			return fmt.Errorf("active: tool %q is duplicated", name)
		}
	}
	return nil
}

// EditAdvertised returns the tools that one model call offers to the model, changed by p. It returns an error if p
// adds a tool that is not active in the run, that the call offers already, or whose parameters are not an object.
func EditAdvertised(advertised, active []abi.Tool, p *abi.ToolsPatch) ([]abi.Tool, error) {
	if err := CheckCount(active, p); err != nil {
		return nil, err
	}
	add := p.Add
	out := slices.DeleteFunc(slices.Clone(advertised), func(t abi.Tool) bool { return slices.Contains(p.Remove, t.Name) })
	if p.Whole {
		out, add = []abi.Tool{}, p.Replace
	}
	for _, t := range add {
		i := Index(active, t.Name)
		if i < 0 {
			return nil, fmt.Errorf("request: there is no active tool %q; tools are added in before_agent", t.Name)
		}
		if Index(out, t.Name) >= 0 {
			return nil, fmt.Errorf("request: tool %q is duplicated", t.Name)
		}
		if err := contract.CheckParameters(&t); err != nil {
			return nil, fmt.Errorf("tools: %w", err)
		}
		keepHosts(&t, &active[i])
		out = append(out, t)
	}
	return out, nil
}

// keepHosts sets the fields of t that modules cannot change to those of was.
func keepHosts(t, was *abi.Tool) {
	t.Owner, t.Idempotent, t.ReadOnly, t.Destructive = was.Owner, was.Idempotent, was.ReadOnly, was.Destructive
}

// MergeParams returns params with a patch applied; null removes a parameter.
func MergeParams(params, patch abi.Params) abi.Params {
	if len(patch) == 0 {
		return params
	}
	out := maps.Clone(params)
	if out == nil {
		out = abi.Params{}
	}
	for name, value := range patch {
		if value == nil || string(value) == "null" {
			delete(out, name)
			continue
		}
		out[name] = value
	}
	return out
}

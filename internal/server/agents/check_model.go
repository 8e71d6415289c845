package agents

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/server/policy"
)

// checkModels calls checkModel for an agent and its sub-agents.
func checkModels(f *agentfile.File, p *policy.Policy) error {
	if err := checkModel(f, p); err != nil {
		return err
	}
	for i := range f.Agents {
		if inner := f.Agents[i].Spec(); inner != nil {
			if err := checkModels(inner, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkModel rejects models and parameters that the policy does not allow.
func checkModel(f *agentfile.File, p *policy.Policy) error {
	if mayPass := p.ParamCheck(); mayPass != nil {
		for _, name := range slices.Sorted(maps.Keys(f.Model.Params)) {
			if err := mayPass(name); err != nil {
				return agentfile.ErrorAt(f, "model.params."+name, fmt.Errorf("params: %w", err))
			}
		}
	}
	if len(p.Models) == 0 {
		return nil
	}
	check := func(at, name string) error {
		if name == "" || hook.Matches(p.Models, name) {
			return nil
		}
		return agentfile.ErrorAt(f, at,
			fmt.Errorf("model: the operator's policy does not allow this tenant to use %q; %s", name, allowedText(p.Models)))
	}
	if err := check("model.name", f.Model.Name); err != nil {
		return err
	}
	for i, fallback := range f.Model.Fallbacks {
		if err := check(fmt.Sprintf("model.fallbacks[%d]", i), fallback.Name); err != nil {
			return err
		}
	}
	for i, name := range f.Limits.Models {
		if err := check(fmt.Sprintf("limits.models[%d]", i), name); err != nil {
			return err
		}
	}
	return nil
}

// allowedText lists the allowed values for an error message.
func allowedText(list []string) string {
	if len(list) == 0 {
		return "none are allowed"
	}
	return "allowed are " + strings.Join(list, ", ")
}

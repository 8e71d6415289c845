package modules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module"
)

// describe returns the API's description of a module: the module's own description, its hooks,
// imports and limits, and warnings.
func describe(m *module.Module) *api.About {
	info, limits := m.Info(), m.Limits()
	a := &api.About{
		Name:         info.Description.Name,
		Version:      info.Description.Version,
		Description:  info.Description.Description,
		Transport:    info.Transport,
		Hooks:        []string{},
		Powers:       []api.Power{},
		Grants:       []string{},
		Messages:     info.Description.Messages,
		ConfigSchema: info.Description.ConfigSchema,
		Warnings:     append([]string{}, info.Warnings...),
		Limits: api.ModuleLimits{
			MemoryBytes: limits.MemoryBytes,
			Fuel:        limits.Fuel,
			RunFuel:     limits.RunFuel,
			Timeout:     limits.HookTime.String(),
			InputBytes:  limits.InputBytes,
			OutputBytes: limits.OutputBytes,
			HostCalls:   limits.HostCalls,
		},
	}
	if a.Messages == "" {
		a.Messages = contract.MessagesFull
	}
	for _, h := range info.Hooks {
		a.Hooks = append(a.Hooks, string(h))
	}
	for _, p := range info.Imports {
		a.Powers = append(a.Powers, api.Power{Name: p.Name, Does: p.Does, Grant: p.Grant})
		if p.Grant != "" && !slices.Contains(a.Grants, p.Grant) {
			a.Grants = append(a.Grants, p.Grant)
		}
	}
	a.Warnings = append(a.Warnings, CombinedWarnings(readsConversation(a), a.Grants, "if it is granted")...)
	return a
}

// readsConversation reports whether the module can read the conversation, from its inputs or by
// a host call.
func readsConversation(a *api.About) bool {
	return a.Messages != contract.MessagesNone ||
		slices.ContainsFunc(a.Powers, func(p api.Power) bool { return p.Name == "messages" })
}

// CombinedWarnings returns warnings about grants that are dangerous in combination. reads reports
// whether the module can read the conversation if the grants allow it. The grants are those of a
// middleware in an agent file, or those that a module can use, with HOST and NAME as placeholders.
// If condition is not empty, it ends each warning, as the condition under which the warning applies.
func CombinedWarnings(reads bool, grants []string, condition string) []string {
	var hosts, tools []string
	var keeps, asks bool
	for _, g := range grants {
		power, what, _ := strings.Cut(g, ":")
		switch power {
		case "http":
			hosts = append(hosts, strings.Replace(what, "HOST", "other hosts", 1))
		case "tool":
			tools = append(tools, strings.Replace(what, "NAME", "the agent's tools", 1))
		case "store":
			keeps = true
		case "model":
			asks = true
		case "read":
			reads = reads && what != "none"
		}
	}
	var out []string
	warn := func(format string, args ...any) {
		out = append(out, strings.TrimSuffix(fmt.Sprintf(format, args...), ": ")+parenthesize(condition))
	}
	where := strings.Join(hosts, ", ")
	if reads && where != "" {
		warn("it reads the conversation and may call %s: it can send the conversation there", where)
	}
	if len(tools) > 0 && where != "" {
		warn("it may call %s and %s: it can send the tools' results there", strings.Join(tools, ", "), where)
	}
	if reads && len(tools) > 0 {
		warn("it reads the conversation and may call %s: the conversation can make it call them", strings.Join(tools, ", "))
	}
	if reads && keeps {
		warn("it reads the conversation and stores values between runs: it can reveal one user's messages to another")
	}
	if keeps && where != "" {
		warn("it stores values between runs and may call %s: responses can control it in later runs", where)
	}
	if asks && where != "" && reads {
		warn("it may use a model and call %s: responses can influence the model", where)
	}
	return out
}

func parenthesize(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/store"
)

// About is what a module is and can do, found out when it was uploaded.
type About struct {
	Name         string          `json:"name,omitempty" doc:"The name that the module reports."`
	Version      string          `json:"version,omitempty"`
	Description  string          `json:"description,omitempty"`
	Transport    string          `json:"transport" doc:"The calling convention: native, extism or javascript."`
	Hooks        []string        `json:"hooks" nullable:"false" doc:"The hooks that the module implements."`
	Powers       []Power         `json:"powers" nullable:"false" doc:"The capabilities that the module uses."`
	Grants       []string        `json:"grants" nullable:"false" doc:"The grants that the module needs for all its capabilities."`
	Messages     string          `json:"messages" doc:"How the module receives the conversation: full, lazy or none."`
	ConfigSchema json.RawMessage `json:"config_schema,omitempty" doc:"The JSON Schema of the module's configuration."`
	Limits       ModuleLimits    `json:"limits" doc:"The default limits. An agent can set others."`
	Warnings     []string        `json:"warnings" nullable:"false" doc:"Warnings for users of the module."`
}

// A Power is something that a module can do.
type Power struct {
	Name  string `json:"name"`
	Does  string `json:"does" doc:"A description of the capability."`
	Grant string `json:"grant,omitempty" doc:"The grant that the capability needs. Without it, the host denies calls."`
}

// ModuleLimits bound a module.
type ModuleLimits struct {
	MemoryBytes int64  `json:"memory_bytes" doc:"Maximum memory of one instance."`
	Fuel        int64  `json:"fuel" doc:"Maximum fuel per hook call."`
	RunFuel     int64  `json:"run_fuel" doc:"Maximum fuel per run, over all hooks."`
	Timeout     string `json:"timeout" doc:"Maximum time per hook call, without time spent in host calls."`
	InputBytes  int    `json:"input_bytes"`
	OutputBytes int    `json:"output_bytes"`
	HostCalls   int    `json:"host_calls" doc:"Maximum host calls per hook call."`
}

// describe finds out what a module is.
func describe(m *module.Module) *About {
	info, limits := m.Info(), m.Limits()
	a := &About{Name: info.Description.Name, Version: info.Description.Version, Description: info.Description.Description,
		Transport: info.Transport, Hooks: []string{}, Powers: []Power{}, Grants: []string{}, Messages: info.Description.Messages,
		ConfigSchema: info.Description.ConfigSchema, Warnings: append([]string{}, info.Warnings...),
		Limits: ModuleLimits{MemoryBytes: limits.MemoryBytes, Fuel: limits.Fuel, RunFuel: limits.RunFuel, Timeout: limits.HookTime.String(),
			InputBytes: limits.InputBytes, OutputBytes: limits.OutputBytes, HostCalls: limits.HostCalls}}
	if a.Messages == "" {
		a.Messages = abi.MessagesFull
	}
	for _, h := range info.Hooks {
		a.Hooks = append(a.Hooks, string(h))
	}
	for _, p := range info.Imports {
		a.Powers = append(a.Powers, Power{Name: p.Name, Does: p.Does, Grant: p.Grant})
		if p.Grant != "" && !slices.Contains(a.Grants, p.Grant) {
			a.Grants = append(a.Grants, p.Grant)
		}
	}
	a.Warnings = append(a.Warnings, combined(a.reads(), a.Grants, "if it is granted")...)
	return a
}

// reads reports whether the module may come to see the conversation: in its
// inputs, or because it asks for it.
func (a *About) reads() bool {
	return a.Messages != abi.MessagesNone || slices.ContainsFunc(a.Powers, func(p Power) bool { return p.Name == "messages" })
}

// combined warns of powers that are more together than each alone. The grants
// are such as agents give, or as modules ask for, with HOST and NAME.
func combined(reads bool, grants []string, provided string) []string {
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
		out = append(out, strings.TrimSuffix(fmt.Sprintf(format, args...), ": ")+ifSaid(provided))
	}
	where := strings.Join(hosts, ", ")
	if reads && where != "" {
		warn("it reads the conversation and may call %s: it can send there what is said", where)
	}
	if len(tools) > 0 && where != "" {
		warn("it may call %s and %s: it can send out what the tools answer", strings.Join(tools, ", "), where)
	}
	if reads && len(tools) > 0 {
		warn("it reads the conversation and may call %s: what is said can make it call them", strings.Join(tools, ", "))
	}
	if reads && keeps {
		warn("it reads the conversation and keeps values between runs: what one user says can reach another")
	}
	if keeps && where != "" {
		warn("it keeps values between runs and may call %s: it can be told from there what to do in later runs", where)
	}
	if asks && where != "" && reads {
		warn("it may ask a model and %s: what a host answers can lead the model", where)
	}
	return out
}

func ifSaid(provided string) string {
	if provided == "" {
		return ""
	}
	return " (" + provided + ")"
}

// A Module is one as the API shows it.
type Module struct {
	Digest  string       `json:"digest" doc:"The SHA-256 of the content, as sha256:…. The content of a script includes its imports."`
	Kind    string       `json:"kind" enum:"wasm,script" doc:"The media type of the content."`
	Size    int64        `json:"size" doc:"The size of the stored content, in bytes."`
	Names   []ModuleName `json:"names" nullable:"false"`
	Created time.Time    `json:"created"`
	Blocked string       `json:"blocked,omitempty" doc:"The operator's reason, if the module is blocked."`
	About   About        `json:"about"`
}

// A ModuleName is a name and a version of a module.
type ModuleName struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// showModule is what a tenant sees of its module.
func (m *modules) show(kept *store.TenantModule) (*Module, error) {
	out := &Module{Digest: digestPrefix + kept.Digest, Kind: kept.Kind, Size: kept.Size, Names: []ModuleName{}, Created: kept.Created.UTC()}
	for _, n := range kept.Names {
		out.Names = append(out.Names, ModuleName{n.Name, n.Version})
	}
	out.Blocked, _ = m.blocks.reason(kept.Digest)
	return out, json.Unmarshal(kept.About, &out.About)
}

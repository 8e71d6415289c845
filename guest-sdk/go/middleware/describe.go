package middleware

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/internal/schema"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// Options describes a module to the host. All fields are optional.
type Options struct {
	Name        string // name of the module
	Version     string // version of the module, in any format
	Description string // one sentence
	// Requires names hooks and features that the module needs. A host without one of them
	// rejects the module.
	Requires []string
	// Events lists the events that Observe receives. Nil means all but chunks.
	Events []abi.EventType
	// HoldStream holds back the chunks of a wrapped model call until WrapModel returns,
	// for wrappers that must see the whole answer first.
	HoldStream bool
	// Labels asks for the labels of messages and results; see [abi.Message].
	Labels bool
	// ConfigSchema is a JSON Schema of the configuration. If nil, it is derived from the
	// type of the configured middleware.
	ConfigSchema abi.JSON
}

// NewModule returns a module of middlewares. They are called in the given order; the first wrapper
// is the outermost. NewModule panics if a value is not a middleware, has a method with the name of
// a hook but another type, or has a configuration that JSON cannot represent. It also panics if two
// middlewares have a configuration, or if two have the method CallTool, not counting those made by
// [WithTools]. Authors call [Register] instead.
func NewModule(o Options, middlewares ...Middleware) *Module {
	m := &Module{}
	for _, mw := range flatten(middlewares) {
		m.parts = append(m.parts, newPart(mw))
	}
	m.describe(&o)
	for i := range hookMethods {
		h := &hookMethods[i]
		for _, p := range m.parts {
			if h.has(p.sample) && h.hook != contract.HookConfigure {
				m.description.Hooks = append(m.description.Hooks, h.hook)
				server := h.server(p.sample)
				m.served = append(m.served, served{hook: h.hook, serve: server.serve, server: server})
				break
			}
		}
	}
	target := m.target()
	m.config = byType{m, target}
	if o.ConfigSchema == nil {
		m.description.ConfigSchema = noConfig.Append(nil)
		if target != nil {
			m.description.ConfigSchema = target.schema.Append(nil)
		}
	}
	callers := 0
	for _, p := range m.parts {
		if _, ok := p.sample.(*toolset); ok {
			continue
		}
		if _, ok := p.sample.(CallToolHook); ok {
			callers++
		}
	}
	if callers > 1 {
		panic("middleware: two middlewares of one module implement CallTool; use WithTools for one of them")
	}
	return m
}

// describe initializes the module's description.
func (m *Module) describe(o *Options) {
	m.buffer = make([]byte, 0, 1<<10)
	m.description = abi.Description{
		Name: o.Name, Version: o.Version, Description: o.Description, Requires: o.Requires,
		Hooks: []abi.Hook{
			contract.HookConfigure,
		}, Messages: contract.MessagesLazy, Events: o.Events, HoldStream: o.HoldStream, Labels: o.Labels,
		ConfigSchema: o.ConfigSchema,
	}
}

// noConfig is the configuration schema of a module without configuration.
var noConfig = schema.Schema{Kind: "object", Closed: true}

// target returns the part that takes the module's configuration, or nil. It panics if two parts
// take one.
func (m *Module) target() *part {
	var found *part
	for _, p := range m.parts {
		if !p.takesConfig() {
			continue
		}
		if found != nil {
			panic(
				"middleware: " + found.name() + " and " + p.name() + " both have a configuration, but a module has only one. Tag the fields of one of them `json:\"-\"`, or give it what it needs in code",
			)
		}
		found = p
	}
	return found
}

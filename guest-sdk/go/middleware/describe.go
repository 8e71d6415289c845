package middleware

import (
	"github.com/agent-runner/agent-runner/abi"
)

// Options say what a module tells of itself. All are optional.
type Options struct {
	Name        string // what the module is called
	Version     string // its version, in the author's own counting
	Description string // one sentence
	// Requires are hooks and features without which the module makes no
	// sense: a host that lacks one refuses it.
	Requires []string
	// Events are those that Observe is called with; nil: all but chunks.
	Events []abi.EventType
	// HoldStream keeps the pieces of a wrapped model call back until WrapModel
	// returned, for wrappers that must see an answer before anybody does.
	HoldStream bool
	// ConfigSchema is a JSON Schema of the configuration; nil: it is made from
	// the type of the middleware that is configured.
	ConfigSchema abi.JSON
}

// NewModule makes a module of middlewares, called in the order in which they
// are given, wrappers from outside in. It panics with what is to be done where
// one of them is none, or has a method that is named like a hook and is not
// one. [Register] is what authors call.
func NewModule(o Options, middlewares ...Middleware) *Module {
	m := &Module{}
	for _, mw := range flatten(middlewares) {
		m.parts = append(m.parts, newPart(mw))
	}
	m.describe(&o)
	for i := range hookMethods {
		h := &hookMethods[i]
		for _, p := range m.parts {
			if h.has(p.sample) && h.hook != abi.HookConfigure {
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
		m.description.ConfigSchema = noConfig.append(nil)
		if target != nil {
			m.description.ConfigSchema = target.schema.append(nil)
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

// describe begins the module's description.
func (m *Module) describe(o *Options) {
	m.room = make([]byte, 0, 1<<10)
	m.description = abi.Description{
		Name: o.Name, Version: o.Version, Description: o.Description, Requires: o.Requires,
		Hooks: []abi.Hook{abi.HookConfigure}, Messages: abi.MessagesLazy, Events: o.Events, HoldStream: o.HoldStream,
		ConfigSchema: o.ConfigSchema,
	}
}

// noConfig is the schema of the configuration of a module that has none.
var noConfig = schema{kind: "object", closed: true}

// target returns the part that takes the module's configuration, if any.
func (m *Module) target() *part {
	var found *part
	for _, p := range m.parts {
		if !p.takesConfig() {
			continue
		}
		if found != nil {
			panic("middleware: " + found.name() + " and " + p.name() + " both have a configuration; a module has one. Tag the fields of one of them `json:\"-\"`, or give it what it needs in code")
		}
		found = p
	}
	return found
}

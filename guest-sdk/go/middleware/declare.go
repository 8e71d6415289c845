package middleware

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A Declaration is a module whose hooks and configuration fields are declared
// explicitly. [Register] determines them from types instead, with reflection, which
// makes a module 0.6 MB larger.
//
//	func init() {
//		g := &guard{}
//		d := middleware.Declare(middleware.Options{Name: "guard"})
//		d.Strings(&g.tools, "tools", "names of the tools that may not be called")
//		d.GateTool(g)
//		middleware.Serve(d)
//	}
//
// Several middlewares with the same hook are called in the order of their declaration.
type Declaration struct {
	module Module
	fields fields
}

// Declare returns a declaration without hooks and without configuration fields.
func Declare(o Options) *Declaration {
	d := &Declaration{}
	d.module.describe(&o)
	d.module.config = &d.fields
	return d
}

// Module returns the declared module. Authors call [Serve] instead.
func (d *Declaration) Module() *Module {
	m := &d.module
	if m.description.ConfigSchema == nil {
		s := d.fields.schema()
		m.description.ConfigSchema = s.Append(nil)
	}
	return m
}

type serveFunc = func(s *served) (abijson.Writable, error)

// declare adds h to the middlewares that have the hook. serve is the function that serves the hook.
func declare[H any](d *Declaration, hook abi.Hook, serve serveFunc, h H) {
	m := &d.module
	s := m.find(hook)
	if s == nil {
		m.served = append(m.served, served{hook: hook, serve: serve})
		m.description.Hooks = append(m.description.Hooks, hook)
		m.sortHooks()
		s = m.find(hook)
	}
	s.called = append(hooks[H](s), h)
}

// sortHooks sorts the hooks by the order in which a run calls them.
func (m *Module) sortHooks() {
	have := m.description.Hooks
	m.description.Hooks = make([]abi.Hook, 0, len(have))
	for _, h := range contract.Hooks() {
		if slices.Contains(have, h) {
			m.description.Hooks = append(m.description.Hooks, h)
		}
	}
}

// Configure declares a hook that runs after the configuration was read into the fields.
// It can check the fields and compute values from them.
func (d *Declaration) Configure(h ConfigureHook) { d.fields.checks = append(d.fields.checks, h) }

// Tools declares tools that the module adds to the agent and runs, as [WithTools] does.
func (d *Declaration) Tools(tools ...Tool) {
	set := WithTools(tools...).(*toolset)
	declare[BeforeAgentHook](d, contract.HookBeforeAgent, (*AgentStart)(nil).serve, set)
	declare[CallToolHook](d, contract.HookCallTool, (*Call)(nil).serve, set)
}

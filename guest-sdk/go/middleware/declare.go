package middleware

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
)

// A Declaration is a module that says itself which hooks it has and what it is
// configured with, where [Register] finds that out of types. That takes reflection,
// without which a module is 0.6 MB smaller.
//
//	func init() {
//		g := &guard{}
//		d := middleware.Declare(middleware.Options{Name: "guard"})
//		d.Strings(&g.tools, "tools", "names of the tools that may not be called")
//		d.GateTool(g)
//		middleware.Serve(d)
//	}
//
// A hook of several values asks them in the order in which they were declared.
type Declaration struct {
	module Module
	fields fields
}

// Declare begins a declaration.
func Declare(o Options) *Declaration {
	d := &Declaration{}
	d.module.describe(&o)
	d.module.config = &d.fields
	return d
}

// Module returns the module. [Serve] is what authors call.
func (d *Declaration) Module() *Module {
	m := &d.module
	if m.description.ConfigSchema == nil {
		s := d.fields.schema()
		m.description.ConfigSchema = s.append(nil)
	}
	return m
}

type serveFunc = func(s *served) (abi.Writable, error)

// declare adds a middleware to those that have a hook.
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

// sortHooks puts the hooks in the order in which a run meets them.
func (m *Module) sortHooks() {
	have := m.description.Hooks
	m.description.Hooks = make([]abi.Hook, 0, len(have))
	for _, h := range abi.Hooks() {
		if slices.Contains(have, h) {
			m.description.Hooks = append(m.description.Hooks, h)
		}
	}
}

// Configure declares what checks a configuration, once it stands in the fields, and
// computes what follows from it.
func (d *Declaration) Configure(h ConfigureHook) { d.fields.checks = append(d.fields.checks, h) }

// BeforeAgent declares the hook of the same name, as the methods below do.
func (d *Declaration) BeforeAgent(h BeforeAgentHook) {
	declare(d, abi.HookBeforeAgent, (*AgentStart)(nil).serve, h)
}

// BeforeModelRewriteState is described at [Declaration.BeforeAgent].
func (d *Declaration) BeforeModelRewriteState(h BeforeModelRewriteStateHook) {
	declare(d, abi.HookBeforeModelRewriteState, beforeRewrite, h)
}

// BeforeModel is described at [Declaration.BeforeAgent].
func (d *Declaration) BeforeModel(h BeforeModelHook) {
	declare(d, abi.HookBeforeModel, (*ModelStart)(nil).serve, h)
}

// WrapModel is described at [Declaration.BeforeAgent].
func (d *Declaration) WrapModel(h WrapModelHook) {
	declare(d, abi.HookWrapModel, NextModel(nil).serve, h)
}

// OnChunk is described at [Declaration.BeforeAgent].
func (d *Declaration) OnChunk(h OnChunkHook) { declare(d, abi.HookOnChunk, (*Chunks)(nil).serve, h) }

// AfterModel is described at [Declaration.BeforeAgent].
func (d *Declaration) AfterModel(h AfterModelHook) {
	declare(d, abi.HookAfterModel, (*ModelEnd)(nil).serve, h)
}

// AfterModelRewriteState is described at [Declaration.BeforeAgent].
func (d *Declaration) AfterModelRewriteState(h AfterModelRewriteStateHook) {
	declare(d, abi.HookAfterModelRewriteState, afterRewrite, h)
}

// BeforeTool is described at [Declaration.BeforeAgent].
func (d *Declaration) BeforeTool(h BeforeToolHook) {
	declare(d, abi.HookBeforeTool, (*ToolStart)(nil).serve, h)
}

// WrapToolCall is described at [Declaration.BeforeAgent].
func (d *Declaration) WrapToolCall(h WrapToolCallHook) {
	declare(d, abi.HookWrapToolCall, NextTool(nil).serve, h)
}

// GateTool is described at [Declaration.BeforeAgent].
func (d *Declaration) GateTool(h GateToolHook) { declare(d, abi.HookGateTool, Decision{}.serve, h) }

// AfterTool is described at [Declaration.BeforeAgent].
func (d *Declaration) AfterTool(h AfterToolHook) {
	declare(d, abi.HookAfterTool, (*ToolEnd)(nil).serve, h)
}

// ToolMessages is described at [Declaration.BeforeAgent].
func (d *Declaration) ToolMessages(h ToolMessagesHook) {
	declare(d, abi.HookToolMessages, (*ToolRecord)(nil).serve, h)
}

// AfterTools is described at [Declaration.BeforeAgent].
func (d *Declaration) AfterTools(h AfterToolsHook) {
	declare(d, abi.HookAfterTools, (*ToolsEnd)(nil).serve, h)
}

// AfterAgent is described at [Declaration.BeforeAgent].
func (d *Declaration) AfterAgent(h AfterAgentHook) {
	declare(d, abi.HookAfterAgent, (*AgentEnd)(nil).serve, h)
}

// Observe is described at [Declaration.BeforeAgent].
func (d *Declaration) Observe(h ObserveHook) { declare(d, abi.HookObserve, observing{}.serve, h) }

// TranslateBefore is described at [Declaration.BeforeAgent].
func (d *Declaration) TranslateBefore(h TranslateBeforeHook) {
	declare(d, abi.HookTranslateBefore, (*Translation)(nil).serve, h)
}

// TranslateAfter is described at [Declaration.BeforeAgent].
func (d *Declaration) TranslateAfter(h TranslateAfterHook) {
	declare(d, abi.HookTranslateAfter, (*Translation)(nil).serve, h)
}

// Tools declares tools that the module adds to the agent and runs, as [WithTools] does.
func (d *Declaration) Tools(tools ...Tool) {
	set := WithTools(tools...).(*toolset)
	declare[BeforeAgentHook](d, abi.HookBeforeAgent, (*AgentStart)(nil).serve, set)
	declare[CallToolHook](d, abi.HookCallTool, (*Call)(nil).serve, set)
}

package middleware

import "github.com/agent-runner/agent-runner/abi"

// exchanges are the inputs and answers of the hooks, filled so far that every
// type in them occurs.
var exchanges = map[abi.Hook]func() (in, out any){
	abi.HookBeforeAgent: func() (any, any) {
		return &abi.BeforeAgentInput{Tools: warmTools, ReturnDirectly: []string{""}}, &abi.BeforeAgentAnswer{Respond: &warmMessage}
	},
	abi.HookBeforeModelRewriteState: func() (any, any) {
		return &abi.BeforeModelRewriteStateInput{Tools: []abi.StateTool{{Tool: warmTools[0]}}}, &abi.BeforeModelRewriteStateAnswer{Messages: warmPatch}
	},
	abi.HookBeforeModel: func() (any, any) {
		return &abi.BeforeModelInput{Request: warmRequest}, &abi.BeforeModelAnswer{Request: abi.RequestPatch{Messages: warmPatch}, Response: warmResponse}
	},
	abi.HookWrapModel: func() (any, any) {
		return &abi.WrapModelInput{Request: warmRequest}, &abi.WrapModelAnswer{Response: warmResponse}
	},
	abi.HookOnChunk: func() (any, any) {
		chunks := []abi.Chunk{{Kind: abi.ChunkText, Text: "x"}, {Kind: abi.ChunkToolCall}}
		return &abi.OnChunkInput{Chunks: chunks}, &abi.OnChunkAnswer{Chunks: chunks}
	},
	abi.HookAfterModel: func() (any, any) {
		return &abi.AfterModelInput{Request: warmRequest, Response: warmResponse}, &abi.AfterModelAnswer{Response: warmResponse}
	},
	abi.HookAfterModelRewriteState: func() (any, any) {
		return &abi.AfterModelRewriteStateInput{Tools: []abi.StateTool{{Tool: warmTools[0]}}}, &abi.AfterModelRewriteStateAnswer{Messages: warmPatch}
	},
	abi.HookBeforeTool: func() (any, any) {
		return &abi.BeforeToolInput{Tool: warmTools[0]}, &abi.BeforeToolAnswer{Result: warmResult}
	},
	abi.HookWrapToolCall: func() (any, any) {
		return &abi.WrapToolCallInput{Tool: warmTools[0]}, &abi.WrapToolCallAnswer{Result: warmResult}
	},
	abi.HookGateTool: func() (any, any) {
		return &abi.GateToolInput{Tool: warmTools[0]}, &abi.GateToolAnswer{Decision: abi.DecideDeny, Message: "x"}
	},
	abi.HookCallTool: func() (any, any) { return &abi.CallToolInput{}, &abi.CallToolAnswer{Result: warmResult} },
	abi.HookAfterTool: func() (any, any) {
		return &abi.AfterToolInput{Tool: warmTools[0], Result: warmResult}, &abi.AfterToolAnswer{Result: warmResult}
	},
	abi.HookToolMessages: func() (any, any) {
		return &abi.ToolMessagesInput{Tool: warmTools[0], Default: warmMessage}, &abi.ToolMessagesAnswer{Messages: []abi.Message{warmMessage}}
	},
	abi.HookAfterTools: func() (any, any) {
		return &abi.AfterToolsInput{Calls: []abi.Call{{}}}, &abi.AfterToolsAnswer{Messages: warmPatch}
	},
	abi.HookAfterAgent: func() (any, any) {
		return &abi.AfterAgentInput{Final: &warmMessage}, &abi.AfterAgentAnswer{Final: &warmMessage}
	},
	abi.HookObserve: func() (any, any) {
		return &abi.ObserveInput{Events: []abi.Event{{Message: &warmMessage, Call: &abi.Call{}, Result: warmResult}}}, &abi.ObserveAnswer{}
	},
}

var (
	warmMessage  = abi.Message{Role: abi.RoleAssistant, Content: abi.Text("x"), ToolCalls: []abi.ToolCall{abi.NewToolCall("x", "x", "{}")}}
	warmTools    = []abi.Tool{{Name: "x", Parameters: []byte(`{"type":"object"}`)}}
	warmRequest  = abi.Request{Tools: warmTools, Params: abi.Params{"x": []byte("1")}}
	warmResponse = &abi.Response{Message: warmMessage, Usage: &abi.Usage{}}
	warmResult   = abi.TextResult("x")
	warmPatch    = abi.ListPatch{Splice: []abi.Splice{{Insert: []abi.Message{warmMessage}}}}
)

// warm decodes and encodes what the module's hooks will, once: what the JSON
// packages learn of types on the way stays in memory, is in the image that
// every run begins with, and need not be learnt in each run anew.
func (m *Module) warm() {
	for _, h := range m.description.Hooks {
		exchange, ok := exchanges[h]
		if !ok {
			continue
		}
		in, out := exchange()
		for _, v := range []any{in, out} {
			if b, err := abi.Marshal(v); err == nil {
				_, _ = abi.Decode(b, v)
			}
		}
	}
}

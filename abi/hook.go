package abi

//go:generate go run ../internal/hookgen ..

// A Hook is the name of an exported function that the host calls at one point of the
// agent's loop, such as on_chunk. The README lists the hooks.
type Hook string

// HookGateTool is the hook of a [Pending] that asks for the approval of a tool call.
const HookGateTool Hook = "gate_tool"

package abi

// A Run describes the run in which a hook is called, and its progress.
type Run struct {
	ID         string          `json:"id"`
	Agent      string          `json:"agent"`
	Step       int             `json:"step"` // starts at 1; 0 in before_agent
	StepID     string          `json:"step_id,omitempty"`
	MaxSteps   int             `json:"max_steps"`
	Usage      Usage           `json:"usage"`
	Metadata   map[string]JSON `json:"metadata,omitempty"`    // from the caller
	NowMS      int64           `json:"now_ms"`                // current Unix time in milliseconds
	DeadlineMS int64           `json:"deadline_ms,omitempty"` // milliseconds until the deadline; 0 if there is none
	Parent     string          `json:"parent,omitempty"`      // ID of the parent run, if this run is a tool call of another
}

// Common holds the fields that the inputs of all hooks but describe and configure have.
type Common struct {
	Run   Run    `json:"run"`
	Entry string `json:"entry"` // name of this module's entry in the chain
	// Resume is set if this hook interrupted the run and the interrupt was answered.
	Resume *Resume `json:"resume,omitempty"`
}

// Envelope returns c. The host uses it to set the common part of any input.
func (c *Common) Envelope() *Common { return c }

// The finish reasons of a run.
const (
	RunStop           = "stop"            // the model answered
	RunReturnDirectly = "return_directly" // a tool's result is the answer
	RunTransfer       = "transfer"        // this agent's part ended: the conversation was transferred to another agent
	RunStopped        = "stopped"         // a module stopped the run
	RunCanceled       = "canceled"        // the caller canceled the run
	RunTimeout        = "timeout"         // the deadline passed
	RunMaxSteps       = "max_steps"       // the run used all its steps
	RunLimit          = "limit"           // the run used all its model calls or tool calls
	RunError          = "error"           // the run failed
)

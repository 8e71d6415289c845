package abi

// A Run says which run, and where in it, a hook is called.
type Run struct {
	ID         string          `json:"id"`
	Agent      string          `json:"agent"`
	Step       int             `json:"step"` // from 1; 0 in before_agent
	StepID     string          `json:"step_id,omitempty"`
	MaxSteps   int             `json:"max_steps"`
	Usage      Usage           `json:"usage"`
	Metadata   map[string]JSON `json:"metadata,omitempty"`    // the caller's
	NowMS      int64           `json:"now_ms"`                // Unix time, milliseconds
	DeadlineMS int64           `json:"deadline_ms,omitempty"` // milliseconds left; 0: none
	Parent     string          `json:"parent,omitempty"`      // the run that this one is a tool of
}

// Common is in every hook's input.
type Common struct {
	Run   Run    `json:"run"`
	Entry string `json:"entry"` // this module's name in the chain
	// Resume is there when this hook interrupted the run and was answered.
	Resume *Resume `json:"resume,omitempty"`
}

// Envelope returns c itself; the host fills the common part of any input
// through it.
func (c *Common) Envelope() *Common { return c }

// The reasons for which a run finishes.
const (
	RunStop           = "stop"            // the model answered
	RunReturnDirectly = "return_directly" // a tool's result is the answer
	RunTransfer       = "transfer"        // an agent's part of it: the conversation went to another
	RunStopped        = "stopped"         // a module stopped it
	RunCanceled       = "canceled"        // its caller did
	RunTimeout        = "timeout"         // its deadline passed
	RunMaxSteps       = "max_steps"       // it used all its steps
	RunLimit          = "limit"           // it used all its model calls or tool calls
	RunError          = "error"           // something failed
)

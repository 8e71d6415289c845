package ending

import "github.com/agent-runner/agent-runner/abi"

// Failed is the error of a state hook that returned 1.
type HookError struct {
	Entry string
	Hook  abi.Hook
	Err   *abi.Error
}

// Error names the entry, the hook and its reason.
func (f *HookError) Error() string {
	return f.Entry + ": " + string(f.Hook) + " failed: " + f.Err.Error()
}

// Unwrap returns the middleware's own error.
func (f *HookError) Unwrap() error { return f.Err }

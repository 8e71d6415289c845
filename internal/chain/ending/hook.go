package ending

import "github.com/agent-runner/agent-runner/abi"

// A HookError reports that a state hook or an on_chunk hook returned an error, Err. If Entry is
// "host", the host rejected the chunks of a stream because the run's memory is full.
type HookError struct {
	Entry string
	Hook  abi.Hook
	Err   *abi.Error
}

// Error returns the entry, the hook and the reason.
func (f *HookError) Error() string {
	return f.Entry + ": " + string(f.Hook) + " failed: " + f.Err.Error()
}

// Unwrap returns the middleware's error.
func (f *HookError) Unwrap() error { return f.Err }

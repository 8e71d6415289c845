package contract

import "github.com/agent-runner/agent-runner/abi"

// Codes returns all error codes.
func Codes() []abi.Code {
	return []abi.Code{
		abi.CodeInvalid,
		abi.CodeDenied,
		abi.CodeLimit,
		abi.CodeNotFound,
		abi.CodeConflict,
		abi.CodeUnavailable,
		abi.CodeModel,
		abi.CodeTool,
		abi.CodeInternal,
	}
}

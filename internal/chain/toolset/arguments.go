// Package toolset applies the changes of middlewares to an agent's tools, and checks the arguments
// of tool calls. It guarantees that tool names are unique and that a name has the same owner during
// the whole run.
package toolset

import (
	"errors"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// ParseArguments returns the arguments of a tool call, or "{}" if they are empty. It returns an
// error if they are not one JSON object.
func ParseArguments(arguments string) (string, error) {
	if arguments == "" {
		return "{}", nil
	}
	if err := jsoncodec.Valid([]byte(arguments)); err != nil {
		return arguments, err
	}
	if strings.TrimLeft(arguments, " \t\r\n")[0] != '{' {
		return arguments, errors.New("want a JSON object")
	}
	return arguments, nil
}

// BadArguments returns an error result that tells the model that err makes the arguments of a tool
// call invalid. It quotes at most 1,024 bytes of the arguments.
func BadArguments(tool, arguments string, err error) *abi.Result {
	const limit = 1024
	if len(arguments) > limit {
		arguments = safetext.Clip(arguments, limit)
	}
	return abi.ErrorResult(
		fmt.Sprintf("The arguments of %s are not valid: %v. They were: %s\nCall the tool again with one JSON object.",
			tool, err, arguments),
	)
}

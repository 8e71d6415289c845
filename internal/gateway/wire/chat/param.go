package chat

import (
	"bytes"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// The names of the limit of an answer's tokens. Modules see the first one, so that a module that
// lowers it cannot miss the second, which newer models demand.
const (
	maxTokens           = "max_tokens"
	maxCompletionTokens = "max_completion_tokens"
)

// readParam reads a field of the request that is a parameter.
func (r *request) readParam(name string, v rawjson.Value) error {
	if problem := paramProblem(name, v); problem != "" {
		return invalid(name, "%s", problem)
	}
	if v.IsNull() && (name == maxTokens || name == maxCompletionTokens) {
		return nil // no limit
	}
	if name == maxCompletionTokens {
		name, r.newLimit = maxTokens, true
	}
	if _, twice := r.call.Params[name]; twice {
		return invalid(name, "give %s or %s, not both", maxTokens, maxCompletionTokens)
	}
	r.call.Params[name] = abi.JSON(v.Text)
	return nil
}

// paramProblem returns a description of the problem with a parameter, or "".
func paramProblem(name string, v rawjson.Value) string {
	switch name {
	case "n":
		if !v.IsNull() && v.Int() != 1 {
			return "n must be 1, because middlewares judge one answer; send several requests instead"
		}
	case "functions", "function_call":
		if !v.IsNull() {
			return name + " is not supported; use tools and tool_choice"
		}
	case "model", "stream", "messages", "tools":
		return name + " is not a parameter"
	}
	if known := misspelled(name); known != "" {
		return fmt.Sprintf("%.100q is %s in another case; write %s", name, known, known)
	}
	return ""
}

// editParams adds to change the parameters that next changes. It removes a parameter that becomes
// null.
func (r *request) editParams(next abi.Params, change map[string][]byte) error {
	for name, value := range next {
		if old, ok := r.call.Params[name]; ok && bytes.Equal(old, value) {
			continue
		}
		v, err := rawjson.Parse(value)
		if err != nil {
			return moduleError("a module set the parameter %.100q to a value that is not valid: %v", name, err)
		}
		if problem := paramProblem(name, v); problem != "" {
			return moduleError("a module set the parameter %.100q: %s", name, problem)
		}
		if _, both := next[maxTokens]; both && name == maxCompletionTokens {
			return moduleError("a module set %s, and the request has a limit; set %s", maxCompletionTokens, maxTokens)
		}
		if change[r.fieldOf(name)] = v.Text; v.IsNull() {
			change[r.fieldOf(name)] = nil
		}
	}
	for name := range r.call.Params {
		if _, ok := next[name]; !ok && change[r.fieldOf(name)] == nil {
			change[r.fieldOf(name)] = nil
		}
	}
	return nil
}

// fieldOf returns the request's name for a parameter.
func (r *request) fieldOf(name string) string {
	if name == maxTokens && r.newLimit {
		return maxCompletionTokens
	}
	return name
}

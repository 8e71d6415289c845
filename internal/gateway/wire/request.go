package wire

import (
	"maps"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// SortedParams returns the parameters of a call that are not null, in the order of their names. The error is a *Error
// with CodeInvalid: a value is not valid JSON, or a name is one of reserved, which are other fields of a request.
func SortedParams(params abi.Params, reserved ...string) ([]rawjson.Member, error) {
	var out []rawjson.Member
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if slices.Contains(reserved, name) {
			return nil, invalid(name, "%q is not a parameter", name)
		}
		v, err := rawjson.Parse(params[name])
		if err != nil {
			return nil, invalid(name, "the parameter %.100q is not valid: %v", name, err)
		}
		if !v.IsNull() {
			out = append(out, rawjson.Member{Name: name, Value: v})
		}
	}
	return out, nil
}

// IsDefault reports whether a parameter of chat completions has the value that it has if it is absent, so that an
// API without the parameter does the same.
func IsDefault(name string, v rawjson.Value) bool {
	switch name {
	case "n":
		return v.Int() == 1
	case "frequency_penalty", "presence_penalty":
		return slices.Contains([]string{"0", "0.0"}, string(v.Text))
	case "logit_bias":
		return v.IsObject() && len(v.Members()) == 0
	case "logprobs", "store":
		return string(v.Text) == "false"
	case "modalities":
		list := v.Elements()
		return len(list) == 1 && list[0].String() == "text"
	case "response_format":
		return v.Get("type").String() == "text"
	case "stream_options":
		return true // the API always sends the usage
	}
	return false
}

// Unsupported returns the error for a parameter that an API does not have.
func Unsupported(name, api string) error {
	return invalid(name, "%s does not have the parameter %q", api, name)
}

func invalid(param, format string, args ...any) *Error {
	err := Errorf(CodeInvalid, format, args...)
	err.Param = param
	return err
}

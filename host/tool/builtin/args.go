package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/suggest"
)

// define returns a tool implemented by a function that takes its arguments as a struct A and
// returns text. The model receives the function's errors.
func define[A any](
	name, description, parameters string,
	run func(ctx context.Context, args *A) (string, error),
) tool.Tool {
	declaration := abi.Tool{
		Name:        name,
		Description: description,
		Parameters:  json.RawMessage(parameters),
		Idempotent:  name != nameTime, // the time differs between calls
	}
	return tool.Func(declaration, func(ctx context.Context, call abi.Call) (*abi.Result, error) {
		var args A
		if err := decodeArguments(call.Arguments, &args); err != nil {
			return abi.ErrorResult(err.Error()), nil
		}
		text, err := run(ctx, &args)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return abi.ErrorResult(err.Error()), nil
		}
		return abi.TextResult(text), nil
	})
}

// decodeArguments decodes the arguments of a call. Its errors address the model.
func decodeArguments(arguments string, args any) error {
	if strings.TrimSpace(arguments) == "" {
		arguments = "{}"
	}
	unknown, err := abijson.Decode([]byte(arguments), args)
	if err != nil {
		return fmt.Errorf("the arguments are wrong: %w", err)
	}
	if len(unknown) == 0 {
		return nil
	}
	known := argumentNames(reflect.TypeOf(args).Elem())
	hint := ""
	if near := suggest.Closest(unknown[0], known); near != nil {
		hint = fmt.Sprintf("; did you mean %q?", near[0])
	}
	return fmt.Errorf("there is no argument %q%s (the arguments are %s)", unknown[0], hint, strings.Join(known, ", "))
}

func argumentNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		names = append(names, t.Field(i).Tag.Get("json"))
	}
	slices.Sort(names)
	return names
}

// inRange returns the value of an argument, or the default absent if the argument is missing. It
// fails if the value is below low or above high.
func inRange(name string, value *int, absent, low, high int) (int, error) {
	if value == nil {
		return absent, nil
	}
	if *value < low || *value > high {
		return 0, fmt.Errorf("%s is %d; it must be from %d to %d", name, *value, low, high)
	}
	return *value, nil
}

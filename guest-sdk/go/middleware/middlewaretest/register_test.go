package middlewaretest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

type (
	wrongArgument struct{}
	wrongResult   struct{}
	wrongWrap     struct{}
	noHooks       struct{}
	onlyConfigure struct{}
	byPointer     struct{}
	callsTools    struct{}
	withConfig    struct {
		A int `json:"a"`
	}
	withFunc struct{ Fn func() }
)

func (wrongArgument) BeforeAgent(*middleware.Context, *middleware.State) error { return nil }
func (wrongResult) GateTool(*middleware.Context, *middleware.Call) middleware.Decision {
	return middleware.Allow()
}
func (*wrongWrap) BeforeAgent(*middleware.Context, *middleware.AgentStart) error { return nil }
func (*wrongWrap) WrapModel(middleware.Context, ...int)                          {}
func (noHooks) BeforeModelRewrite(*middleware.Context, *middleware.State) error  { return nil }
func (onlyConfigure) Configure(*middleware.Context) error                        { return nil }
func (*byPointer) OnChunk(*middleware.Context, *middleware.Chunks) error         { return nil }
func (callsTools) CallTool(*middleware.Context, *middleware.Call) (*abi.Result, error) {
	return nil, nil
}
func (*withConfig) OnChunk(*middleware.Context, *middleware.Chunks) error { return nil }
func (*withFunc) OnChunk(*middleware.Context, *middleware.Chunks) error   { return nil }

func TestNewModuleErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		middlewares []middleware.Middleware
		want        string
	}{
		"argument": {
			[]middleware.Middleware{wrongArgument{}},
			"middleware: middlewaretest_test.wrongArgument.BeforeAgent is named like a hook and has another type: want func(*middleware.Context, *middleware.AgentStart) error, got func(*middleware.Context, *middleware.State) error",
		},
		"result": {
			[]middleware.Middleware{wrongResult{}},
			"want func(*middleware.Context, *middleware.Call) (middleware.Decision, error), " +
				"got func(*middleware.Context, *middleware.Call) middleware.Decision",
		},
		"one of two":       {[]middleware.Middleware{&wrongWrap{}}, "got func(middleware.Context, ...int)"},
		"no hooks":         {[]middleware.Middleware{noHooks{}}, "noHooks has no hooks"},
		"configure alone":  {[]middleware.Middleware{onlyConfigure{}}, "has no hooks"},
		"not a pointer":    {[]middleware.Middleware{byPointer{}}, "pointer receiver: register &middlewaretest_test.byPointer{…}"},
		"nil":              {[]middleware.Middleware{nil}, "nil is no middleware"},
		"nil pointer":      {[]middleware.Middleware{(*withConfig)(nil)}, "is nil: register &middlewaretest_test.withConfig{}"},
		"in a combination": {[]middleware.Middleware{middleware.Combine(&byPointer{}, middleware.Combine(noHooks{}))}, "noHooks has no hooks"},
		"two configurations": {
			[]middleware.Middleware{&withConfig{}, &withConfig{}},
			"both have a configuration",
		},
		"two that call tools":  {[]middleware.Middleware{callsTools{}, callsTools{}}, "two middlewares of one module implement CallTool"},
		"not a configuration":  {[]middleware.Middleware{&withFunc{}}, "Tag fields that are no configuration"},
		"builds an interface":  {[]middleware.Middleware{middleware.Build(func(int) (any, error) { return nil, nil })}, "a concrete type, not an interface"},
		"builds without hooks": {[]middleware.Middleware{middleware.Build(func(int) (noHooks, error) { return noHooks{}, nil })}, "noHooks has no hooks"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() { require.Contains(t, fmt.Sprint(recover()), tc.want) }()
			middleware.NewModule(middleware.Options{}, tc.middlewares...)
			t.Fatal("did not panic")
		})
	}
}

func TestToolsetErrors(t *testing.T) {
	t.Parallel()
	run := func(*middleware.Context, *middleware.Call) (*abi.Result, error) { return nil, nil }
	for want, tools := range map[string][]middleware.Tool{
		`invalid tool name`:        {{Run: run}},
		`tool "t" has no Run`:      {{Tool: abi.Tool{Name: "t"}}},
		`two tools are named "t"`:  {{Tool: abi.Tool{Name: "t"}, Run: run}, {Tool: abi.Tool{Name: "t"}, Run: run}},
		`parameters must be a JSO`: {{Tool: abi.Tool{Name: "t", Parameters: []byte("[]")}, Run: run}},
	} {
		func() {
			defer func() { require.Contains(t, fmt.Sprint(recover()), want) }()
			middleware.WithTools(tools...)
			t.Fatal("did not panic")
		}()
	}
}

func TestRegister(t *testing.T) {
	t.Parallel()
	register := func(middlewares ...middleware.Middleware) (message string) {
		defer func() {
			if p := recover(); p != nil {
				message = fmt.Sprint(p)
			}
		}()
		middleware.Register(middleware.Options{}, middlewares...)
		return ""
	}
	require.Contains(t, register(), "without a middleware")
	require.Contains(t, register(noHooks{}), "has no hooks")
	require.Empty(t, register(&byPointer{}))
	require.Contains(t, register(&byPointer{}), "Register was called twice")
}

//go:build tinygo

package middleware

import (
	"reflect"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A method describes a Go method that implements a hook. TinyGo cannot look up methods by name, so the code for each
// hook is referenced here. For a hook that the program does not use, a module contains only this code, because the
// compiler determines whether a type has the method.
type method struct {
	hook abi.Hook
	has  func(v any) bool
	by   func() server
}

// server returns the server of the hook.
func (m *method) server(any) server { return m.by() }

// check panics if v has no hooks. A method with the name of a hook but another type is
// detected only in programs built by Go, such as tests that call Register.
func check(v any) {
	if v == nil {
		panic("middleware: nil is no middleware")
	}
	for _, m := range hookMethods {
		if m.hook != contract.HookConfigure && m.has(v) {
			return
		}
	}
	panic(
		"middleware: " + reflect.TypeOf(v).
			String() +
			" has no hooks: it needs a method of at least one of the …Hook interfaces; " +
			"where they have a pointer receiver, register a pointer",
	)
}

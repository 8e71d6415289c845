//go:build !tinygo

package middleware

import (
	"reflect"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A method describes a Go method that implements a hook.
type method struct {
	hook abi.Hook
	at   place
	want string // the expected type, for error messages
	has  func(v any) bool
	find finder
}

// A place is the position, in the signature of a hook method, of the type that implements [server]
// for the hook.
type place int

const (
	none   place = 0 // no type of the signature implements server; observing does
	second place = 2 // the second parameter
	third  place = 3
	result place = -1 // the first result
)

// A finder looks up the method by name.
type finder func(t reflect.Type) (reflect.Method, bool)

// server returns the server of the hook for v, which has the method. Its type is taken from the
// method's signature. The linker retains the methods of a type only if a value of it is converted
// to an interface or a method that refers to it is looked up by name. Therefore unused hooks leave
// no code in a module, except observe, whose signature has no type of this package.
func (m *method) server(v any) server {
	got, _ := m.find(reflect.TypeOf(v))
	switch m.at {
	case none:
		return observing{}
	case result:
		return reflect.Zero(got.Type.Out(0)).Interface().(server)
	default:
		return reflect.Zero(got.Type.In(int(m.at))).Interface().(server)
	}
}

// check panics if v has no hooks, or a method with the name of a hook but another type.
// Such a method would otherwise silently never be called.
func check(v any) {
	t := reflect.TypeOf(v)
	if t == nil {
		panic("middleware: nil is no middleware")
	}
	hooks, pointerHooks := 0, 0
	for _, m := range hookMethods {
		if m.has(v) {
			if m.hook != contract.HookConfigure {
				hooks++
			}
			continue
		}
		if got, ok := m.find(t); ok {
			panic("middleware: " + t.String() + "." + got.Name + " is named like a hook and has another type: want " + m.want +
				", got " + withoutReceiver(got.Type).String())
		}
		if _, ok := m.find(reflect.PointerTo(t)); ok {
			pointerHooks++
		}
	}
	if pointerHooks > 0 {
		panic("middleware: the hooks of " + t.String() + " have a pointer receiver: register &" + t.String() + "{…}")
	}
	if hooks == 0 {
		panic("middleware: " + t.String() + " has no hooks: it needs a method of at least one of the …Hook interfaces")
	}
}

func withoutReceiver(t reflect.Type) reflect.Type {
	var in, out []reflect.Type
	for i := 1; i < t.NumIn(); i++ {
		in = append(in, t.In(i))
	}
	for i := range t.NumOut() {
		out = append(out, t.Out(i))
	}
	return reflect.FuncOf(in, out, t.IsVariadic())
}

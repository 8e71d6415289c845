package middleware

import "github.com/agent-runner/agent-runner/abi"

// registered is the module's own side of the ABI. There can be only one: the
// exports of a WebAssembly module are functions of the whole program.
var registered *Module

// Register makes this program a module of the given middlewares. Call it in
// init, once. Within the module middlewares are called in the order in which
// they are given, wrappers from outside in.
//
// It panics, before anything runs, where a middleware has no hooks or has a
// method that is named like a hook and has another type.
func Register(o Options, middlewares ...Middleware) {
	if registered != nil {
		panic("middleware: Register was called twice; give it all middlewares of the module at once")
	}
	if len(middlewares) == 0 {
		panic("middleware: Register was called without a middleware")
	}
	registered = NewModule(o, middlewares...)
}

// Combine makes one middleware of several, called in this order.
func Combine(middlewares ...Middleware) Middleware { return combined(middlewares) }

// several is a middleware that stands for several.
type several interface{ middlewares() []Middleware }

type combined []Middleware

func (c combined) middlewares() []Middleware { return c }

func flatten(list []Middleware) []Middleware {
	var out []Middleware
	for _, mw := range list {
		if s, ok := mw.(several); ok {
			out = append(out, flatten(s.middlewares())...)
		} else {
			out = append(out, mw)
		}
	}
	return out
}

// current is the registered module, for the exports.
func current() *Module {
	if registered == nil {
		panic("middleware: no middleware was registered; call middleware.Register in init")
	}
	return registered
}

// callRegistered is one call of an export: it returns what the export does.
func callRegistered(host Host, hook abi.Hook, input []byte, write func([]byte)) int32 {
	output, ok := current().Call(host, hook, input)
	if output != nil {
		write(output)
	}
	if !ok {
		return 1
	}
	return 0
}

package middleware

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

// Serve makes this program the module that was declared. Call it in init, once.
func Serve(d *Declaration) {
	if registered != nil {
		panic("middleware: a module was registered already; there is one in a program")
	}
	registered = d.Module()
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

package middleware

// registered is this program's module. There can be only one, because the exports of a
// WebAssembly module are functions of the whole program.
var registered *Module

// Register makes this program a module of the given middlewares. Call it once, in init.
// The middlewares are called in the given order; the first wrapper is the outermost.
//
// Register panics if a module is already registered, if there are no middlewares, and for the
// reasons that [NewModule] lists.
func Register(o Options, middlewares ...Middleware) {
	if registered != nil {
		panic("middleware: Register was called twice; give it all middlewares of the module at once")
	}
	if len(middlewares) == 0 {
		panic("middleware: Register was called without a middleware")
	}
	registered = NewModule(o, middlewares...)
}

// Serve makes this program the declared module. Call it once, in init. It panics if a module is
// already registered.
func Serve(d *Declaration) {
	if registered != nil {
		panic("middleware: a module was registered already; there is one in a program")
	}
	registered = d.Module()
}

// Combine returns a middleware that consists of the given ones. They are called in the given order.
func Combine(middlewares ...Middleware) Middleware { return combined(middlewares) }

// several is implemented by a middleware that consists of other middlewares.
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

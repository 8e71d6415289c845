package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/internal/abitable"
)

const guestPackage = "package middleware"

// A server identifies the type of the Go SDK whose method serve runs a hook. place is where the
// type occurs in the signature of the hook's method: "result", "second" or "third" for a parameter,
// or "none" if it does not occur.
type server struct{ place, typ string }

// server returns the type that serves the hook.
func (h *hook) server() server {
	local := func(t string) bool { return !strings.Contains(t, ".") }
	switch m := h.method; {
	case len(m.results) > 0 && local(m.results[0]):
		return server{"result", m.results[0]}
	case len(m.params) > 1:
		return server{"third", m.params[1]}
	case len(m.params) > 0 && local(m.params[0]):
		return server{"second", m.params[0]}
	default:
		return server{"none", "observing"}
	}
}

// value returns an expression for a value of the type that serves the hook.
func (s server) value() string {
	switch s.place {
	case "second":
		return "(" + s.typ + ")(nil)"
	case "third":
		return s.typ + "(nil)"
	default:
		return s.typ + "{}"
	}
}

// methodHooks returns the hooks that are methods in the Go SDK.
func (s *source) methodHooks() []hook {
	return slices.DeleteFunc(slices.Clone(s.hooks), func(h hook) bool { return h.method == nil })
}

// qualified returns the name by which other packages refer to a type of package middleware.
func qualified(t string) string {
	if strings.Contains(t, ".") {
		return t
	}
	name := strings.TrimLeft(t, "*[]")
	return strings.TrimSuffix(t, name) + "middleware." + name
}

// methods generates the table of methods for Go's compiler.
func methods(s *source) string {
	var b strings.Builder
	b.WriteString("// hookMethods lists the methods that implement hooks, in the order in which a run calls\n" +
		"// them. Their names are constants in direct calls, so that the linker sees which methods\n" +
		"// are looked up and drops all others, with the imports they use. Their types are given as\n" +
		"// text: a type that is referenced here would keep the code for its hook in every module,\n" +
		"// and so would a type parameter.\nvar hookMethods = []method{\n")
	for _, h := range s.methodHooks() {
		params := []string{"*middleware.Context"}
		for _, p := range h.method.params {
			params = append(params, qualified(p))
		}
		result := "error"
		if r := h.method.results; len(r) > 0 {
			result = "(" + qualified(r[0]) + ", error)"
		}
		fmt.Fprintf(&b, "{\ncontract.Hook%[1]s, %[2]s, \"func(%[3]s) %[4]s\",\n"+
			"func(v any) bool { _, ok := v.(%[1]sHook); return ok },\n"+
			"func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName(%[1]q) },\n},\n",
			h.Go, h.server().place, strings.Join(params, ", "), result)
	}
	return goFile("//go:build !tinygo\n\n"+guestPackage, b.String()+"}\n")
}

// tinyMethods generates the table of methods for TinyGo.
func tinyMethods(s *source) string {
	var b strings.Builder
	b.WriteString("var hookMethods = []method{\n")
	for _, h := range s.methodHooks() {
		fmt.Fprintf(
			&b,
			"{contract.Hook%[1]s, func(v any) bool { _, ok := v.(%[1]sHook); return ok }, func() server { return %[2]s }},\n",
			h.Go,
			h.server().value(),
		)
	}
	return goFile("//go:build tinygo\n\n"+guestPackage, b.String()+"}\n")
}

// declarations generates the methods of Declaration. It has none for configure, which has fields,
// and none for tools, which have a declaration of their own.
func declarations(s *source) string {
	var b strings.Builder
	for _, h := range s.methodHooks() {
		if h.Kind == "once" || h.Kind == "tool" {
			continue
		}
		serve := h.server().value() + ".serve"
		if h.alone {
			serve = "serve" + h.Go
		}
		fmt.Fprintf(
			&b,
			"\n// %[1]s declares a middleware for %[2]s.\nfunc (d *Declaration) %[1]s(h %[1]sHook) { declare(d, contract.Hook%[1]s, %[3]s, h) }\n",
			h.Go,
			h.Name,
			serve,
		)
	}
	return goFile(guestPackage, b.String())
}

// endings generates the function that reports whether an answer can end the run.
func endings(s *source) string {
	var both, stop []string
	for _, h := range s.hooks {
		switch {
		case h.Has(abitable.Stop | abitable.Interrupt):
			both = append(both, "contract.Hook"+h.Go)
		case h.Has(abitable.Stop):
			stop = append(stop, "contract.Hook"+h.Go)
		}
	}
	return goFile(
		guestPackage,
		"// endings reports whether an answer of the hook can stop and interrupt the run.\n"+
			"func endings(hook abi.Hook) (stop, interrupt bool) {\nswitch hook {\ncase "+strings.Join(both, ",\n")+":\nreturn true, true\ncase "+
			strings.Join(stop, ",\n")+":\nreturn true, false\ndefault:\nreturn false, false\n}\n}\n",
	)
}

// guestExports generates the exports of a module in Go.
func guestExports(s *source) string {
	var b strings.Builder
	b.WriteString("// Every hook is exported, because Go's exports are fixed when a program is built. The\n" +
		"// description tells the host which of them to call.\n")
	for _, h := range s.hooks {
		fmt.Fprintf(&b, "\n//go:wasmexport %s\nfunc %s(n int32) int32 { return export(contract.Hook%s, n) }\n",
			h.Name, lowerCamel(h.Name), h.Go)
	}
	return goFile(guestPackage, b.String())
}

// guestImports generates the imports of a module in Go.
func guestImports(s *source) string {
	var b strings.Builder
	for _, i := range s.imports {
		var params []string
		for _, p := range i.Parameters() {
			typ := "int32"
			switch {
			case p.Reads || p.Fills:
				typ = "unsafe.Pointer"
			case p.Wide:
				typ = "int64"
			}
			params = append(params, lowerCamel(p.Name)+" "+typ)
		}
		result := ""
		if i.Result != "" {
			result = " int32"
		}
		fmt.Fprintf(&b, "\n//go:wasmimport agent_middleware_v1 %s\nfunc host%s(%s)%s\n",
			i.Name, camel(i.Name), strings.Join(params, ", "), result)
	}
	return goFile(guestPackage, b.String())
}

// pluginExports generates the exports of an Extism plug-in of the Go SDK.
func pluginExports(s *source) string {
	var b strings.Builder
	for _, h := range s.hooks {
		fmt.Fprintf(&b, "\n//go:wasmexport %s\nfunc %s() int32 { return export(contract.Hook%s) }\n",
			h.Name, lowerCamel(h.Name), h.Go)
	}
	return goFile(guestPackage, b.String())
}

// pluginImports generates the imports of an Extism plug-in of the Go SDK. Reading, writing and
// logging go through Extism's own functions.
func pluginImports(s *source) string {
	var b strings.Builder
	for _, i := range s.imports {
		if i.Name == "read" || i.Name == "write" || i.Name == "log" {
			continue
		}
		request := "request uint64"
		if i.Params == "" {
			request = ""
		}
		fmt.Fprintf(&b, "\n//go:wasmimport extism:host/user %s\nfunc user%s(%s) uint64\n", i.Name, camel(i.Name), request)
	}
	return goFile(guestPackage, b.String())
}

// testCalls generates the methods of the host for authors' tests.
func testCalls(s *source) string {
	var b strings.Builder
	b.WriteString("// Host has one method for each hook. The method fills in the run and the entry of the\n" +
		"// input. If a list in the input has items, the hook receives these, otherwise the run's\n" +
		"// messages. Changes to the run's messages are applied.\n")
	for _, h := range s.hooks {
		if h.During != "load" {
			b.WriteString(s.testCall(&h))
		}
	}
	return goFile("package middlewaretest", b.String())
}

// testCall returns the method for one hook.
func (s *source) testCall(h *hook) string {
	var b strings.Builder
	note := ""
	wraps := map[string][2]string{"wrap_model": {"request", "Request"}, "wrap_tool_call": {"call", "Call"}}[h.Name]
	if wraps[0] != "" {
		note = " The hook's next calls Host." + map[string]string{"model": "Model", "tool": "Tool"}[h.During] + "."
	}
	fmt.Fprintf(&b, "\n// %[1]s calls the hook %[2]s.%[3]s\nfunc (h *Host) %[1]s(in abi.%[4]s) (abi.%[5]s, error) {\n",
		h.Go, h.Name, note, h.Input(), h.Answer())
	if s.has(h.Input(), "Messages", "List") {
		b.WriteString("h.show(&in.Messages, abi.ListState)\n")
	}
	if s.has(h.Input(), "Request", "Request") {
		b.WriteString("h.show(&in.Request.Messages, abi.ListRequest)\n")
	}
	if wraps[0] != "" {
		fmt.Fprintf(&b, "h.%[1]s = &in.%[2]s\ndefer func() { h.%[1]s = nil }()\n", wraps[0], wraps[1])
	}
	made := fmt.Sprintf("call[abi.%s](h, contract.Hook%s, &in)", h.Answer(), h.Go)
	if h.Has(abitable.Edits) {
		b.WriteString(
			"answer, err := " + made + "\nif err != nil || answer.Stop != nil || answer.Interrupt != nil {\nreturn answer, err\n}\n" +
				"return answer, h.keep(answer.Messages)\n}\n",
		)
	} else {
		b.WriteString("return " + made + "\n}\n")
	}
	return b.String()
}

// everything generates a middleware with every hook, for tests.
func everything(s *source) string {
	var b strings.Builder
	b.WriteString("// everything has every hook. Each returns the error of called, if that is set.\n" +
		"type everything struct {\ncalled func(ctx *middleware.Context, hook abi.Hook) error\n}\n\n" +
		"func (e everything) at(ctx *middleware.Context, hook abi.Hook) error {\nif e.called == nil {\nreturn nil\n}\nreturn e.called(ctx, hook)\n}\n")
	for _, h := range s.methodHooks() {
		params := "ctx *middleware.Context"
		for _, p := range h.method.params {
			params += ", _ " + qualified(p)
		}
		result, value := "error", ""
		if r := h.method.results; len(r) > 0 {
			result, value = "("+qualified(r[0])+", error)", strings.Replace(r[0], "*", "&", 1)+"{}, "
		}
		if h.Kind == "gate" {
			value = "middleware.Allow(), "
		}
		fmt.Fprintf(&b, "\nfunc (e everything) %[1]s(%[2]s) %[3]s { return %[4]se.at(ctx, contract.Hook%[1]s) }\n",
			h.Go, params, result, value)
	}
	return goFile("package middlewaretest_test", b.String())
}

// goReadme generates the table of methods in the README of the Go SDK.
func goReadme(s *source) string {
	var b strings.Builder
	b.WriteString("| method | the hook |\n|---|---|\n")
	for _, h := range s.methodHooks() {
		params := strings.Join(append([]string{"ctx"}, h.method.params...), ", ")
		fmt.Fprintf(&b, "| `%s(%s)` | %s |\n", h.Go, params, h.method.doc)
	}
	return b.String()
}

// suiteMethods generates the methods of the module of the golden cases. Each calls the hook of the
// middleware that the configuration selects.
func suiteMethods(s *source) string {
	var b strings.Builder
	for _, h := range s.methodHooks() {
		if h.During == "load" {
			continue
		}
		params, args := "ctx *middleware.Context", "ctx"
		for i, p := range h.method.params {
			name := string(rune('a' + i))
			params += ", " + name + " " + qualified(p)
			args += ", " + name
		}
		result := "error"
		if r := h.method.results; len(r) > 0 {
			result = "(" + qualified(r[0]) + ", error)"
		}
		fmt.Fprintf(&b, "\nfunc (s *selected) %[1]s(%[2]s) %[3]s {\nreturn s.it.(middleware.%[1]sHook).%[1]s(%[4]s)\n}\n",
			h.Go, params, result, args)
	}
	return goFile("package main", b.String())
}

// Package javascript bundles scripts in JavaScript or TypeScript, and provides the engine module
// that runs them in the sandbox.
//
// The package has two independent parts. [Build] bundles a script and everything it imports into
// one file, a [Bundle]. [Engine] is QuickJS-ng, compiled to WebAssembly by the npm package
// quickjs-wasi, linked with glue.c, whose exports are the hooks of the ABI and whose imports are
// the host calls. The engine is therefore a module like one written in Go or C: no instance of it
// is re-entered while it runs, and the same limits apply, even to the handling of a script's
// errors. All scripts share the same machine code.
//
// A script's image is built in four steps, each under the limits of a hook: the engine evaluates
// prelude.js, which defines the context that hooks see; it evaluates the bundle; the host calls
// describe; the host calls configure.
//
// Positions in errors refer to the author's sources; see [Map].
package javascript

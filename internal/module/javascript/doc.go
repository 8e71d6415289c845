// Package javascript bundles scripts in JavaScript or TypeScript, and provides the engine module
// that runs them in the sandbox.
//
// The package has two independent parts. [Build] bundles a script and everything that it imports
// into one file, a [Bundle]. [Engine] returns the engine, which is QuickJS-ng, compiled to
// WebAssembly by the npm package quickjs-wasi, and linked with glue.c. The exports of glue.c are
// the hooks of the ABI, and its imports are the host calls.
//
// The engine is therefore a native module like those written in Go or C. No instance of it is
// called while another call in it is in progress. The same limits apply, including to the handling
// of a script's errors. All scripts share the engine's machine code.
//
// A script's image is built in four steps, each under the limits of a hook. First the engine
// evaluates prelude.js, which defines the context that hooks see. Then it evaluates the bundle.
// Finally the host calls describe and then configure.
//
// Positions in errors refer to the author's sources; see [Map].
package javascript

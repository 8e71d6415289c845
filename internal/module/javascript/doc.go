// Package javascript makes scripts, in JavaScript or TypeScript, something that
// runs in the sandbox as any other module does.
//
// There are two halves that meet in a module only. [Build] makes of a script, and
// of what it imports, one file: a [Bundle]. [Engine] is QuickJS-ng, compiled to
// WebAssembly by the npm package quickjs-wasi, linked with glue.c, whose exports
// are the hooks of the ABI and whose imports are the host calls. So an instance of
// the engine is a module like one that was written in Go or C: nothing calls into
// it while it runs, and what bounds others bounds it, the handling of a script's
// errors included. The machine code is one for all scripts.
//
// A script's image is made in four steps, all of them under the limits of a hook:
// the engine starts with prelude.js, which gives the context that hooks see;
// the bundle is evaluated; describe and configure are called.
//
// Positions in errors are those of the author's sources: see [Map].
package javascript

package javascript

import (
	_ "embed"
	"fmt"
	"sync"

	"github.com/agent-runner/agent-runner/internal/wasm"
	wasmlink "github.com/agent-runner/agent-runner/internal/wasm/link"
)

// The first command generates the TypeScript types for authors of scripts. The second copies the
// package that scripts import into this package.
//
//go:generate go run ../../../internal/tsgen ../../../abi ../../contract ../../../guest-sdk/typescript/abi.d.ts
//go:generate cp ../../../guest-sdk/typescript/index.js engine/middleware.js

//go:embed engine/quickjs.wasm
var quickjs []byte

//go:embed engine/glue.wasm
var glue []byte

//go:embed engine/prelude.js
var prelude []byte

// Engine returns the module that runs all scripts: the engine linked with glue.c, which implements
// the ABI.
var Engine = sync.OnceValue(func() []byte {
	linked, err := link()
	if err != nil {
		panic("javascript: " + err.Error()) // the embedded files do not match
	}
	return linked
})

func link() ([]byte, error) {
	engine, err := wasm.Decode(quickjs, wasm.DefaultLimits())
	if err != nil {
		return nil, fmt.Errorf("quickjs.wasm: %w", err)
	}
	part, err := wasm.Decode(glue, wasm.DefaultLimits())
	if err != nil {
		return nil, fmt.Errorf("glue.wasm: %w", err)
	}
	linked, err := wasmlink.Modules(engine, part, "env", "engine", "memory", "_initialize")
	if err != nil {
		return nil, err
	}
	return linked.Encode(), nil
}

// Prelude returns the script that every instance of the engine evaluates first.
func Prelude() []byte { return prelude }

// The engine's exports other than hooks, in the order in which the host calls them while it builds
// an image.
const (
	Exports     = "script_"      // prefix of all of them
	ExportStart = "script_start" // (length, memory in bytes, stack in bytes) -> outcome; the prelude is pending
	ExportLoad  = "script_load"  // (length) -> outcome; the script is pending
	ExportPack  = "script_pack"  // (free bytes)
)

// The engine's only import outside of the ABI and WASI. The function has the type () -> i32. It
// returns 1 if the script exceeded a limit and must end, and 0 otherwise. The engine calls it once
// in every few thousand calls and loop iterations.
const (
	ImportModule = "agent_runner_script"
	ImportOver   = "over"
)

// Results of start, load and hooks, in addition to 0 and 1 of the ABI.
const (
	Threw  = 2 // the output is the thrown value, a [Thrown]
	Broken = 3 // the engine failed before it could describe the error; the output is a line and a stack
)

// Thrown is the output of a call with an uncaught error.
type Thrown struct {
	Name    string `json:"name"` // the error's type, such as TypeError; empty for other values
	Message string `json:"message"`
	Stack   string `json:"stack"` // positions in the bundle, innermost first
}

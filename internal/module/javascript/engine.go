package javascript

import (
	_ "embed"
	"fmt"
	"sync"

	"github.com/agent-runner/agent-runner/internal/wasm"
	wasmlink "github.com/agent-runner/agent-runner/internal/wasm/link"
)

// The types for authors, and the copy of their package.
//
//go:generate go run ../../../internal/tsgen ../../../abi ../../../guest-sdk/typescript/abi.d.ts
//go:generate cp ../../../guest-sdk/typescript/index.js engine/middleware.js

//go:embed engine/quickjs.wasm
var quickjs []byte

//go:embed engine/glue.wasm
var glue []byte

//go:embed engine/prelude.js
var prelude []byte

// Engine is the module that scripts run in: the engine, linked with what makes
// it speak the ABI. It is the same for all scripts.
var Engine = sync.OnceValue(func() []byte {
	linked, err := link()
	if err != nil {
		panic("javascript: " + err.Error()) // what is embedded does not fit together
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

// Prelude is what an instance of the engine is started with.
func Prelude() []byte { return prelude }

// The exports of the engine beside hooks, in the order in which they are called
// while an image is built.
const (
	Exports     = "script_"      // begins all of them
	ExportStart = "script_start" // (length, memory in bytes, stack in bytes) -> outcome; the prelude is pending
	ExportLoad  = "script_load"  // (length) -> outcome; the script is pending
	ExportPack  = "script_pack"  // (room in bytes)
)

// The one import of the engine that is not the ABI's: () -> i32, whether the script
// has passed a limit and is to end. The engine asks it every some thousand calls
// and turns of loops.
const (
	ImportModule = "agent_runner_script"
	ImportOver   = "over"
)

// What start, load and hooks return beside the ABI's 0 and 1.
const (
	Threw  = 2 // the output is what was thrown, a [Thrown]
	Broken = 3 // the engine could not even tell that; the output is a line, and a stack
)

// Thrown is the output of a hook in which the script made a mistake.
type Thrown struct {
	Name    string `json:"name"` // of the error's type, TypeError say; empty for what is no error
	Message string `json:"message"`
	Stack   string `json:"stack"` // of the bundle, innermost first
}

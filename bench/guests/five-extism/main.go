// Command five-extism contains the five middlewares in one Extism plug-in. Each hook is a function
// with JSON as input and output. The configuration selects the codec: "usual", which is Go's
// encoding/json, or "fast".
package main

import (
	"sync"

	"github.com/extism/go-pdk"

	"github.com/agent-runner/agent-runner/bench/internal/five"
)

// remote returns the Remote of this plug-in. The first call creates it, because the configuration
// is not available earlier.
var remote = sync.OnceValue(func() *five.Remote {
	if codec, _ := pdk.GetConfig("codec"); codec == "fast" {
		return five.NewRemote(five.Fast)
	}
	return five.NewRemote(five.Usual)
})

func main() {}

// call passes the plug-in's input to the function of [five.Remote.Call] that hook names, and
// outputs its answer. It returns 1 if the function fails.
func call(hook string) int32 {
	out, err := remote().Call(hook, pdk.Input())
	if err != nil {
		pdk.SetError(err)
		return 1
	}
	pdk.Output(out)
	return 0
}

//go:wasmexport patch
func patch() int32 { return call("patch") }

//go:wasmexport policy
func policy() int32 { return call("policy") }

//go:wasmexport redact_chunks
func redactChunks() int32 { return call("redact_chunks") }

//go:wasmexport redact_result
func redactResult() int32 { return call("redact_result") }

//go:wasmexport cache_get
func cacheGet() int32 { return call("cache_get") }

//go:wasmexport cache_put
func cachePut() int32 { return call("cache_put") }

//go:wasmexport observe
func observe() int32 { return call("observe") }

//go:wasmexport counts
func counts() int32 { return call("counts") }

//go:wasmexport end
func end() int32 { return call("end") }

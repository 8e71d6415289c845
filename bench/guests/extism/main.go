//go:build wasip1

// Command extism is the guest of bench/figures as an Extism plug-in.
package main

import (
	"github.com/extism/go-pdk"

	"github.com/agent-runner/agent-runner/bench/internal/work"
)

//go:wasmexport hook
func hook() int32 {
	out, err := work.Do(pdk.Input())
	if err != nil {
		pdk.SetError(err)
		return 1
	}
	pdk.Output(out)
	return 0
}

func main() {}

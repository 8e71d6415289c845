// Command five-extism is the five middlewares as an Extism plug-in: its
// function takes the name of a hook, a zero byte, and the hook's input.
package main

import (
	"bytes"

	"github.com/agent-runner/agent-runner/bench/internal/five"
	"github.com/extism/go-pdk"
)

var remote = five.NewRemote()

func main() {}

//go:wasmexport hook
func hook() int32 {
	name, input, _ := bytes.Cut(pdk.Input(), []byte{0})
	out, err := remote.Call(string(name), input)
	if err != nil {
		pdk.SetError(err)
		return 1
	}
	pdk.Output(out)
	return 0
}

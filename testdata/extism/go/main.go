// Command go is an Extism plug-in for tests; the one in AssemblyScript does the same.
package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/extism/go-pdk"
)

func main() {}

// echo answers with its input.
//
//go:wasmexport echo
func echo() int32 {
	pdk.Output(pdk.Input())
	return 0
}

// vowels adds the number of vowels in its input to the variable total, and answers with it.
//
//go:wasmexport vowels
func vowels() int32 {
	total, _ := strconv.Atoi(string(pdk.GetVar("total")))
	for _, c := range pdk.InputString() {
		if strings.ContainsRune("aeiou", c) {
			total++
		}
	}
	pdk.SetVar("total", []byte(strconv.Itoa(total)))
	pdk.OutputString(strconv.Itoa(total))
	return 0
}

// setting answers with the configuration value that its input names, or fails without one.
//
//go:wasmexport setting
func setting() int32 {
	value, ok := pdk.GetConfig(pdk.InputString())
	if !ok {
		pdk.SetError(errors.New("there is no " + pdk.InputString()))
		return 1
	}
	pdk.OutputString(value)
	return 0
}

// forget removes the variable total.
//
//go:wasmexport forget
func forget() int32 {
	pdk.RemoveVar("total")
	return 0
}

// tell logs its input at level info, and a fixed line each at levels warn and error.
//
//go:wasmexport tell
func tell() int32 {
	pdk.Log(pdk.LogInfo, pdk.InputString())
	pdk.Log(pdk.LogWarn, "warning")
	pdk.Log(pdk.LogError, "error")
	return 0
}

// broken traps.
//
//go:wasmexport broken
func broken() int32 {
	panic("broken: " + pdk.InputString())
}

// beforeAgent answers with the configured instruction, followed by the host's reply to local_add.
//
//go:wasmexport before_agent
func beforeAgent() int32 {
	instruction, _ := pdk.GetConfig("instruction")
	request := pdk.AllocateString(`{"key": "runs", "delta": 2}`)
	reply := pdk.FindMemory(localAdd(request.Offset()))
	request.Free()
	_ = pdk.OutputJSON(map[string]string{"instruction": instruction + " " + string(reply.ReadBytes())})
	return 0
}

//go:wasmimport extism:host/user local_add
func localAdd(request uint64) uint64

// Command extism shortens long tool results. It is an Extism plug-in that depends only on
// Extism's PDK and the JSON of the hooks.
package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/extism/go-pdk"
)

func main() {}

const description = `{
	"name": "trim-results",
	"version": "1.0.0",
	"description": "Shortens long results of tools.",
	"config_schema": {
		"type": "object",
		"additionalProperties": false,
		"properties": {"max": {"type": "integer", "minimum": 100}}
	}
}`

//go:wasmexport describe
func describe() int32 {
	pdk.OutputString(description)
	return 0
}

//go:wasmexport after_tool
func afterTool() int32 {
	if err := trim(); err != nil {
		pdk.SetError(err)
		return 1
	}
	return 0
}

// trim outputs a shortened result if the result in the input is too long. Otherwise it outputs
// nothing, which leaves the result unchanged.
func trim() error {
	var in struct {
		Call struct {
			Name string `json:"name"`
		} `json:"call"`
		Result map[string]json.RawMessage `json:"result"`
	}
	if err := pdk.InputJSON(&in); err != nil {
		return err
	}
	var text string
	if json.Unmarshal(in.Result["content"], &text) != nil {
		return nil // an error, or a result with parts other than text
	}
	short, left := shorten(text, most())
	if left == 0 {
		return nil
	}
	pdk.Log(pdk.LogInfo, fmt.Sprintf("%s: %d characters left out, %d in this run", in.Call.Name, left, count(left)))
	content, err := json.Marshal(short)
	if err != nil {
		return err
	}
	in.Result["content"] = content
	return pdk.OutputJSON(map[string]any{"result": in.Result})
}

// most returns the maximum number of characters of a result. The default is 4,000.
func most() int {
	value, ok := pdk.GetConfig("max")
	if n, err := strconv.Atoi(value); ok && err == nil {
		return n
	}
	return 4000
}

// count adds n to the run's count of omitted characters, which is an Extism variable, and
// returns the new count.
func count(n int) int {
	n += pdk.GetVarInt("left out")
	pdk.SetVarInt("left out", n)
	return n
}

// shorten returns text unchanged if it has at most the given number of characters. Otherwise, it
// replaces the middle with a note. left is the number of omitted characters.
func shorten(text string, most int) (short string, left int) {
	if len(text) <= most || utf8.RuneCountInString(text) <= most {
		return text, 0
	}
	letters := []rune(text)
	head, tail := most*3/4, most/4
	left = len(letters) - head - tail
	return fmt.Sprintf(
		"%s [%d characters left out] %s",
		string(letters[:head]),
		left,
		string(letters[len(letters)-tail:]),
	), left
}

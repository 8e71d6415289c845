// Command extism shortens long results of tools. It is an Extism plug-in: all that
// it knows of its host is Extism's kit, and the JSON of the hooks.
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

// trim answers with a shorter result if this one is too long, and with nothing,
// which leaves it as it is, otherwise.
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
		return nil // there is no result but an error, or it has other parts than text
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

// most is how many characters a result may have.
func most() int {
	value, ok := pdk.GetConfig("max")
	if n, err := strconv.Atoi(value); ok && err == nil {
		return n
	}
	return 4000
}

// count adds to what was left out in this run, which a variable keeps.
func count(n int) int {
	n += pdk.GetVarInt("left out")
	pdk.SetVarInt("left out", n)
	return n
}

// shorten leaves out the middle of a text, and says so there.
func shorten(text string, most int) (short string, left int) {
	if len(text) <= most || utf8.RuneCountInString(text) <= most {
		return text, 0
	}
	letters := []rune(text)
	head, tail := most*3/4, most/4
	left = len(letters) - head - tail
	return fmt.Sprintf("%s [%d characters left out] %s", string(letters[:head]), left, string(letters[len(letters)-tail:])), left
}

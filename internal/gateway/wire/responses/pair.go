package responses

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// check returns an error if the new input breaks a rule of the API that the request kept: each call has a
// result after it and each result a call before it, and a reasoning item is followed by another item of
// the assistant.
func (e *encoder) check() error {
	items := make([]rawjson.Value, len(e.out))
	for i := range e.out {
		if k := e.out[i].from; k != newItem {
			items[i] = e.items[k] // the fields that check reads cannot change
		} else {
			items[i] = parsed(e.out[i].text)
		}
	}
	err := checkItems(items)
	if err == nil || checkItems(e.items) != nil {
		return nil
	}
	return err
}

func checkItems(items []rawjson.Value) error {
	pairs := map[string]int{}
	reasoning := ""
	for _, v := range items {
		f := members(v)
		typ := f["type"].String()
		isOutput := strings.HasSuffix(typ, "_output")
		if reasoning != "" && (isOutput || isInput(typ, f)) {
			return danglingError(reasoning)
		}
		reasoning = ""
		if typ == "reasoning" {
			reasoning = "reasoning " + f["id"].String()
		}
		id := f["call_id"].String()
		switch {
		case id == "":
		case isOutput && pairs[id] == 0:
			return broken("a module left the result of the tool call %.100q without its call", id)
		case isOutput:
			pairs[id] = 2
		case strings.HasSuffix(typ, "_call") && pairs[id] == 0:
			pairs[id] = 1
		}
	}
	if reasoning != "" {
		return danglingError(reasoning)
	}
	for id, n := range pairs {
		if n == 1 {
			return broken("a module left the tool call %.100q without its result", id)
		}
	}
	return nil
}

// isInput reports whether an item is a message to the model.
func isInput(typ string, f object) bool {
	return (typ == "message" || typ == "") && f["role"].String() != abi.RoleAssistant
}

func danglingError(item string) error {
	return broken("a module left the item %.100q without the item that must follow it; remove the whole message",
		item)
}

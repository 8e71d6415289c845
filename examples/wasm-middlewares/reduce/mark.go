package main

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/json"
)

// A mark in the extra of a result, and of the message that records it, says what
// was done to it. No model sees it.
type mark struct {
	ID      string `json:"id,omitempty"`      // of what is kept
	Cleared bool   `json:"cleared,omitempty"` // only a line is left
}

// markOf is the mark in an extra; one that nobody set is empty.
func markOf(extra abi.JSON) mark {
	var e struct {
		Reduce mark `json:"reduce"`
	}
	if len(extra) > 0 && json.Unmarshal(extra, &e) != nil {
		return mark{}
	}
	return e.Reduce
}

// withMark is the extra with the mark, and with what others put there.
func withMark(extra abi.JSON, m mark) abi.JSON {
	fields := map[string]any{}
	if len(extra) > 0 {
		var others map[string]abi.JSON
		if json.Unmarshal(extra, &others) == nil {
			for key, value := range others {
				fields[key] = value
			}
		}
	}
	fields["reduce"] = m
	out, err := json.Marshal(fields)
	if err != nil {
		return extra
	}
	return out
}

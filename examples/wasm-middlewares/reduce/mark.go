package main

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/json"
)

// A mark in the extra of a result, and of its message, records how the result was changed.
// Models do not see it.
type mark struct {
	ID      string `json:"id,omitempty"`      // the id of the stored text
	Cleared bool   `json:"cleared,omitempty"` // replaced by a line
}

// markOf returns the mark in an extra, or the zero mark.
func markOf(extra abi.JSON) mark {
	var e struct {
		Reduce mark `json:"reduce"`
	}
	if len(extra) > 0 && json.Unmarshal(extra, &e) != nil {
		return mark{}
	}
	return e.Reduce
}

// withMark returns the extra with the mark added. Other entries remain.
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

package agents

import (
	"github.com/agent-runner/agent-runner/internal/agent/journal"

	"encoding/json"
)

// A runSpec is kept with a run: from it the run's agent is found again.
type Spec struct {
	Agent   string `json:"agent"`
	Version int64  `json:"version"`         // 0: the newest
	Rings   int64  `json:"rings,omitempty"` // the version of the operator's rings; 0: the newest, -1: there were none
}

func SpecOf(info *journal.RunInfo) (Spec, error) {
	var s Spec
	err := json.Unmarshal(info.Spec, &s)
	return s, err
}

// operators is the name that stands for all of them.
const OperatorName = "operator"

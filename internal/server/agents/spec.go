package agents

import (
	"encoding/json"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// A Spec identifies a run's agent. It is stored with the run.
type Spec struct {
	Agent   string `json:"agent"`
	Version int64  `json:"version"`         // 0 selects the version by Alias
	Rings   int64  `json:"rings,omitempty"` // version of the operator's rings; 0 selects the newest, -1 means none

	// Alias selects the version of a run that starts, if Version is 0. It is not stored.
	Alias string `json:"-"`
}

// SpecOf decodes the spec of a run.
func SpecOf(info *journal.RunInfo) (Spec, error) {
	var s Spec
	err := json.Unmarshal(info.Spec, &s)
	return s, err
}

// OperatorName replaces the names of the operator's middlewares in data for tenants, and is the
// prefix of these names.
const OperatorName = "operator"

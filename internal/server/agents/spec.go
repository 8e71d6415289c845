package agents

import (
	"encoding/json"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A Spec identifies a run's agent. It is stored with the run.
type Spec struct {
	Agent   string `json:"agent"`
	Version int64  `json:"version"`         // 0 selects a version by Alias
	Rings   int64  `json:"rings,omitempty"` // version of the operator's rings; 0 selects the newest, -1 means none

	// Rollout is the rollout that chose the version, and Arm the version's arm; empty if none did.
	Rollout string    `json:"rollout,omitempty"`
	Arm     store.Arm `json:"arm,omitempty"`

	// Alias selects the version of a run that starts, if Version is 0. A rollout assigns the version
	// by Run or Thread. Alias, Run and Thread are not stored.
	Alias  string `json:"-"`
	Run    string `json:"-"`
	Thread string `json:"-"`
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

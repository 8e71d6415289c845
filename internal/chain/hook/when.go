package hook

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abitable"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// Limits of a [When].
const (
	maxWhenNames = 64 // per list
	maxWhenKeys  = 16 // of metadata
)

// A When restricts an entry to the runs and calls that meet all conditions. Each list has patterns,
// in which a trailing * matches any suffix; see [Matches]. A nil list is no condition, so the zero
// value restricts nothing.
type When struct {
	// Agent and Metadata are conditions on the run. If one of them does not hold, the entry does
	// not take part in the run.
	Agent []string `json:"agent,omitempty"` // names of agents
	// Metadata has lists of values by key. A missing key does not match, and neither does an array,
	// an object or null.
	Metadata map[string][]string `json:"metadata,omitempty"`
	// Model and Tool are conditions on hooks of model calls and of tool calls. They do not restrict
	// other hooks, nor call_tool, because the entry itself added the tool.
	Model []string `json:"model,omitempty"` // names of models, compared with the request's model
	Tool  []string `json:"tool,omitempty"`  // names of tools
}

// Matches reports whether s matches one of the patterns, in which a trailing * matches any suffix.
func Matches(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		start, open := strings.CutSuffix(p, "*")
		return p == s || open && strings.HasPrefix(s, start)
	})
}

// WhenText returns conditions as a JSON object, or "" if there are none.
func WhenText(w *When) string {
	if w.Agent == nil && w.Metadata == nil && w.Model == nil && w.Tool == nil {
		return ""
	}
	b, _ := json.Marshal(w) // strings can always be encoded
	return string(b)
}

// InRun reports whether the entry's conditions on the run hold.
func (p *Plan) InRun(run abi.Run) bool {
	w := &p.When
	if w.Agent != nil && !Matches(w.Agent, run.Agent) {
		return false
	}
	for key, patterns := range w.Metadata {
		if s, ok := scalar(run.Metadata[key]); !ok || !Matches(patterns, s) {
			return false
		}
	}
	return true
}

// scalar returns the text of a JSON string, number or boolean. It reports false for any other
// value.
func scalar(value abi.JSON) (string, bool) {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return "", false
	}
	switch v := v.(type) {
	case string:
		return v, true
	case float64, bool:
		return strings.TrimSpace(string(value)), true
	default:
		return "", false
	}
}

// InModelCall reports whether the entry's hooks are called for a call of the named model.
func (p *Plan) InModelCall(model string) bool {
	return p.When.Model == nil || Matches(p.When.Model, model)
}

// InToolCall reports whether the entry's hooks are called for a call of the named tool.
func (p *Plan) InToolCall(tool string) bool { return p.When.Tool == nil || Matches(p.When.Tool, tool) }

// CheckWhen returns an error if a list is empty or too long, or if a name is invalid.
func CheckWhen(w *When) error {
	err := cmp.Or(checkNames("agent", w.Agent), checkNames("model", w.Model), checkNames("tool", w.Tool))
	if err != nil {
		return err
	}
	if len(w.Metadata) > maxWhenKeys {
		return fmt.Errorf("metadata has %d keys; at most %d are allowed", len(w.Metadata), maxWhenKeys)
	}
	for _, key := range slices.Sorted(maps.Keys(w.Metadata)) {
		patterns := w.Metadata[key]
		if patterns == nil {
			patterns = []string{}
		}
		if err := checkNames(fmt.Sprintf("metadata.%.64s", key), patterns); err != nil {
			return err
		}
	}
	return nil
}

// checkNames validates a list of patterns. Nil is valid, but an empty list is not.
func checkNames(list string, patterns []string) error {
	switch {
	case patterns != nil && len(patterns) == 0:
		return fmt.Errorf("%s is empty and would match nothing; name what it matches, or remove it", list)
	case len(patterns) > maxWhenNames:
		return fmt.Errorf("%s has %d names; at most %d are allowed", list, len(patterns), maxWhenNames)
	}
	for _, p := range patterns {
		switch {
		case p == "" || len(p) > contract.MaxName:
			return fmt.Errorf("%s: want names of 1 to %d bytes", list, contract.MaxName)
		case strings.Contains(strings.TrimSuffix(p, "*"), "*"):
			return fmt.Errorf("%s: %q has a * that is not its last character", list, p)
		}
	}
	return nil
}

// CheckEffect returns an error if a condition would have no effect because the entry has none of
// the hooks that the condition restricts.
func CheckEffect(w *When, hooks []abi.Hook) error {
	during := func(phase string) bool {
		return slices.ContainsFunc(hooks, func(h abi.Hook) bool {
			at := abitable.HookOf(h).During
			return at == phase && h != contract.HookCallTool || at == "call"
		})
	}
	switch {
	case w.Model != nil && !during("model"):
		return fmt.Errorf("model has no effect: none of the entry's hooks is about a model call; they are %v", hooks)
	case w.Tool != nil && !during("tool"):
		return fmt.Errorf("tool has no effect: none of the entry's hooks is about a tool call; they are %v", hooks)
	}
	return nil
}

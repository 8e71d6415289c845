package conformance

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/host/agui"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain"
)

// client returns the encoder of the case's client, or nil if the case has no expectation of a
// client.
func (c *Case) client() chain.Encoder {
	if !slices.ContainsFunc(c.Expect, func(s Section) bool { return s.Kind == "client" }) {
		return nil
	}
	return agui.NewEncoder(agui.Options{})
}

// client formats the events sent to the client, one a line.
func (o *Outcome) client(types string) (string, error) {
	var b strings.Builder
	for _, raw := range o.Client {
		var e map[string]any
		if err := json.Unmarshal(raw, &e); err != nil {
			return "", err
		}
		kind, _ := e["type"].(string)
		if types != "" && !slices.Contains(strings.Split(types, ","), kind) {
			continue
		}
		for _, key := range []string{"type", "timestamp", "threadId", "runId", "protocolVersion", "messageId", "parentMessageId", "usage"} {
			delete(e, key)
		}
		rest, err := abijson.Marshal(e)
		if err != nil {
			return "", err
		}
		b.WriteString(strings.TrimSuffix(kind+" "+string(rest), " {}") + "\n")
	}
	return b.String(), nil
}

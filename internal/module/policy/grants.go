package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/egress"
)

// Grants are the permissions of an entry beyond those that its hooks have. The zero value grants only
// reading all messages.
type Grants struct {
	Read  hook.Read // the messages that the entry may read; defaults to hook.ReadAll
	Model bool      // whether the entry may call models
	Tools []string  // names of the agent's tools that the entry may call
	HTTP  []string  // hosts to which the entry may send requests; see [egress.Pattern]
	Store bool      // whether the entry may use durable values
	// SetModel and SetLimits allow before_agent to set the run's model and parameters, and its limits.
	SetModel, SetLimits bool
	// SetLabels allows an entry of an operator's ring to remove labels of messages.
	SetLabels bool
}

const grantForms = "read:all, read:last, read:none, model, tool:NAME, http:HOST, store, set:model, set:limits, set:labels"

// ParseGrants parses the grants of a configuration, such as "read:last", "model", "tool:NAME",
// "http:HOST", "store", "set:model", "set:limits" and "set:labels".
func ParseGrants(list []string) (Grants, error) {
	var g Grants
	for _, s := range list {
		if err := g.add(s); err != nil {
			return Grants{}, fmt.Errorf("grant %q: %w", s, err)
		}
	}
	return g, nil
}

func (g *Grants) add(s string) error {
	power, what, has := strings.Cut(s, ":")
	switch power {
	case "model", "store":
		if has {
			return fmt.Errorf("want %s alone", power)
		}
		g.Model = g.Model || power == "model"
		g.Store = g.Store || power == "store"
		return nil
	case "read":
		return g.addRead(hook.Read(what))
	case "set":
		if what != "model" && what != "limits" && what != "labels" {
			return fmt.Errorf("want set:model, set:limits or set:labels")
		}
		g.SetModel = g.SetModel || what == "model"
		g.SetLimits = g.SetLimits || what == "limits"
		g.SetLabels = g.SetLabels || what == "labels"
		return nil
	case "tool":
		if what == "" || len(what) > contract.MaxName {
			return fmt.Errorf("want tool:NAME, with the name of one of the agent's tools")
		}
		g.Tools = appendNew(g.Tools, what)
		return nil
	case "http":
		if what == "" || strings.ContainsAny(what, "/?#@ \t") {
			return fmt.Errorf("want http:HOST, with a host and perhaps a port (http:api.example.com), not an address")
		}
		if _, err := egress.ParsePattern(what); err != nil {
			return fmt.Errorf("want http:HOST: %w", err)
		}
		g.HTTP = appendNew(g.HTTP, strings.ToLower(what))
		return nil
	default:
		return fmt.Errorf("unknown grant; want one of %s", grantForms)
	}
}

func (g *Grants) addRead(r hook.Read) error {
	switch {
	case r != hook.ReadAll && r != hook.ReadLast && r != hook.ReadNone:
		return fmt.Errorf("want read:all, read:last or read:none")
	case g.Read != "" && g.Read != r:
		return fmt.Errorf("contradicts read:%s", g.Read)
	}
	g.Read = r
	return nil
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// GrantStrings returns the grants in the form that ParseGrants parses, sorted.
func GrantStrings(g Grants) []string {
	var out []string
	if g.Read != "" {
		out = append(out, "read:"+string(g.Read))
	}
	if g.Model {
		out = append(out, "model")
	}
	for _, t := range g.Tools {
		out = append(out, "tool:"+t)
	}
	for _, h := range g.HTTP {
		out = append(out, "http:"+h)
	}
	if g.Store {
		out = append(out, "store")
	}
	if g.SetModel {
		out = append(out, "set:model")
	}
	if g.SetLimits {
		out = append(out, "set:limits")
	}
	if g.SetLabels {
		out = append(out, "set:labels")
	}
	slices.Sort(out)
	return out
}

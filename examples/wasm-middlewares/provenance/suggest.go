package main

import (
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// BeforeAgent answers with a draft of the configuration if Suggest is set.
func (p *policy) BeforeAgent(_ *middleware.Context, run *middleware.AgentStart) error {
	if p.Suggest {
		run.Respond(abi.Assistant(p.draft(run.Tools)))
	}
	return nil
}

// draft returns a configuration in YAML that states what the module derives from the declarations
// of tools.
func (p *policy) draft(tools []abi.Tool) string {
	var gated, reading []string
	for i := range tools {
		s := p.sinkOf(&tools[i], tools[i].Name)
		if s.harmless() {
			reading = append(reading, s.tool)
			continue
		}
		gated = append(gated, s.row())
	}
	slices.Sort(gated)
	slices.Sort(reading)
	var b strings.Builder
	b.WriteString("config:\n  tools:\n")
	for _, row := range gated {
		b.WriteString(row)
	}
	if len(reading) > 0 {
		b.WriteString("    - {tools: [" + strings.Join(reading, ", ") + "], effect: read}\n")
	}
	b.WriteString("  # Fields that nobody else can write, such as the addresses of a directory:\n")
	b.WriteString("  # trust: [{tools: [get_contact], fields: [email]}]\n")
	return b.String()
}

// row returns the configuration's entry for the tool of s, with a comment if its effect is unknown.
func (s *sink) row() string {
	var guard []string
	for argument, r := range s.roles {
		if r >= detail {
			guard = append(guard, argument)
		}
	}
	slices.Sort(guard)
	effect, note := "", ""
	for i, n := range strings.Split(effectNames, ", ") {
		if s.effect&(1<<i) != 0 {
			effect = n // the last one is the most specific
		}
	}
	if effect == "" {
		effect, note = "run", " # unknown: correct the effect"
	}
	const entry = "    - {tools: [%s], effect: %s, guard: [%s]}%s\n"
	return middleware.Sprintf(entry, s.tool, effect, strings.Join(guard, ", "), note)
}

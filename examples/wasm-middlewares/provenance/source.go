package main

import (
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/names"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// A source is a message with words that are not trusted.
type source struct {
	at       int // index in the run's messages
	id       string
	from     []string // labels that are not trusted
	tool     string   // the tool that returned the message, or "" if another party wrote a part of it
	call     string   // ID of the call if the message is its result
	calledAt int      // index of the message with the call
}

// origin returns the labels that are not trusted, for people.
func (s *source) origin() string { return strings.Join(s.from, ", ") }

// labelsOf returns the labels of m. If the host set no labels, they follow from the message's role
// and origin. tool is the name of the tool if m is a result.
func labelsOf(ctx *middleware.Context, m *abi.Message, tool string) []string {
	switch {
	case len(m.Labels) > 0:
		return m.Labels
	case m.Role == abi.RoleTool && (m.Origin == abi.OriginTool || m.Origin == ""):
		return []string{abi.LabelTool + tool}
	case m.Origin != "" && m.Origin != abi.OriginUser:
		return []string{m.Origin}
	case m.Role == abi.RoleAssistant:
		return []string{abi.OriginModel}
	case m.Role == abi.RoleSystem || m.Role == abi.RoleDeveloper:
		return []string{abi.LabelSystem}
	case ctx.Run.Parent != "": // another agent's model wrote the task
		return []string{abi.OriginModel}
	default:
		return []string{abi.OriginUser}
	}
}

// foreign returns the untrusted ones of the given labels.
func (p *policy) foreign(labels []string) []string {
	var out []string
	for _, l := range labels {
		if !p.trusts(l) {
			out = append(out, l)
		}
	}
	return out
}

// trusts reports whether text with the given label is trusted: text of the user and the system, and
// of the modules and tools that the configuration trusts.
func (p *policy) trusts(label string) bool {
	if label == abi.OriginUser || label == abi.LabelSystem {
		return true
	}
	tool, isTool := strings.CutPrefix(label, abi.LabelTool)
	module, isModule := strings.CutPrefix(label, abi.OriginModule)
	return slices.ContainsFunc(p.Trust, func(r *trustRule) bool {
		return isTool && len(r.Fields) == 0 && names.Match(r.Tools, tool) || isModule && names.Match(r.Modules, module)
	})
}

// trustedFields returns the keys of the trusted fields of a tool's results.
func (p *policy) trustedFields(tool string) []string {
	var out []string
	for _, r := range p.Trust {
		if names.Match(r.Tools, tool) {
			out = append(out, r.Fields...)
		}
	}
	return out
}

// trustedText returns the text of the parts of m whose labels are all trusted. isUsers reports
// whether the user wrote one of them. labels holds the labels of m.
func (p *policy) trustedText(m *abi.Message, labels []string) (text string, isUsers bool) {
	if len(p.foreign(labels)) == 0 {
		return m.Content.String(), slices.Contains(labels, abi.OriginUser)
	}
	if len(m.PartLabels) == 0 {
		return "", false
	}
	parts := m.Content.Parts()
	for _, l := range m.PartLabels {
		if l.Part >= 0 && l.Part < len(parts) && len(l.Labels) > 0 && len(p.foreign(l.Labels)) == 0 {
			text += parts[l.Part].Text + "\n"
			isUsers = isUsers || slices.Contains(l.Labels, abi.OriginUser)
		}
	}
	return text, isUsers
}

// isOthers reports whether a label is neither the model's nor a module's.
func isOthers(label string) bool {
	return label != abi.OriginModel && !strings.HasPrefix(label, abi.OriginModule)
}

// text returns the content of a source, or "" if the message has been changed or moved.
func (s *source) text(ctx *middleware.Context) string {
	got, err := ctx.Messages(s.at, s.at+1)
	if err != nil || len(got) == 0 || got[0].ID != s.id {
		return ""
	}
	return got[0].Content.String()
}

// hasRecords reports whether a source is the result of a tool that returns records of a service.
func (s *source) hasRecords() bool { return s.tool != "" && !readsProse(s.tool) }

// returnsProse reports whether a source is the result of a tool that returns text such as a file or a
// page.
func (s *source) returnsProse() bool { return s.tool != "" && readsProse(s.tool) }

// readsProse reports whether a tool's name means that the tool returns text that anybody may have
// written, such as a file or a page. Other tools return records of a service.
func readsProse(tool string) bool {
	var about topic
	reading := false
	for _, w := range nameWords(tool) {
		about |= topics[w]
		reading = reading || prose[w]
	}
	return about&pages != 0 || reading && about&^files == 0
}

var prose = wordSet("read fetch open visit browse download cat scrape crawl navigate curl http ocr transcribe")

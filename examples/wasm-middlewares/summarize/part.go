package main

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/tokens"
	"github.com/agent-runner/agent-runner/guest-sdk/go/json"
)

// A part is the older part of a conversation.
type part struct {
	earlier  memory        // an earlier summary at its beginning
	messages []abi.Message // the messages after that
	tokens   int           // size of the whole part
	users    []string      // the user's messages in it, and in earlier summaries
}

// A memory is stored in the extra of a summary's message, for the next summary. Models do
// not see it.
type memory struct {
	Summary string   `json:"summary"`
	Users   []string `json:"users,omitempty"`
	Left    int      `json:"left,omitempty"` // the number of omitted messages of the user
}

// An extra is the value of the field extra of a summary's message.
type extra struct {
	Summarize *memory `json:"summarize"`
}

func readPart(messages []abi.Message) *part {
	p := &part{messages: messages, tokens: tokens.Messages(messages)}
	if len(messages) > 0 {
		var e extra
		if first := messages[0]; len(first.Extra) > 0 && json.Unmarshal(first.Extra, &e) == nil && e.Summarize != nil {
			p.earlier, p.messages = *e.Summarize, messages[1:]
		}
	}
	p.users = append(p.users, p.earlier.Users...)
	for _, m := range p.messages {
		// Messages that modules wrote in the user's name are not the user's.
		if m.Role == abi.RoleUser && !strings.HasPrefix(m.Origin, abi.OriginModule) {
			p.users = append(p.users, text(m.Content))
		}
	}
	return p
}

// worth reports whether the part has at least two new messages, so that a summary is worth a model
// call.
func (p *part) worth() bool { return len(p.messages) >= 2 }

// transcripts returns the part's messages as strings of about limit tokens each, or fewer. It
// shortens messages of more than limit/2 tokens.
func (p *part) transcripts(limit int) []string {
	var out []string
	var b strings.Builder
	room := limit
	for _, m := range p.messages {
		line := tokens.Clip(transcript(m), limit/2)
		if n := tokens.Text(line); n > room && b.Len() > 0 {
			out = append(out, b.String())
			b.Reset()
			room = limit
		}
		room -= tokens.Text(line)
		b.WriteString(line)
	}
	if b.Len() > 0 {
		out = append(out, b.String())
	}
	return out
}

// transcript formats a message and its tool calls for the model that summarizes.
func transcript(m abi.Message) string {
	var b strings.Builder
	b.WriteString("[" + m.Role)
	if m.Name != "" {
		b.WriteString(" " + m.Name)
	}
	b.WriteString("] " + text(m.Content) + "\n")
	for _, c := range m.ToolCalls {
		b.WriteString("[calls " + c.Function.Name + "] " + c.Function.Arguments + "\n")
	}
	return b.String()
}

// text returns the text of content, with a placeholder such as "[image_url]" for each part that is
// not text.
func text(c abi.Content) string {
	if !c.IsParts() {
		return c.String()
	}
	var b strings.Builder
	for _, p := range c.Parts() {
		if p.Type == abi.PartText {
			b.WriteString(p.Text)
		} else {
			b.WriteString("[" + p.Type + "]")
		}
	}
	return b.String()
}

package rerun

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// A Decision is an effect of a hook's answer on the run, such as deny.
type Decision string

// Decisions of answers. The answers of gates have other decisions: allow, ask, deny and stop.
const (
	decideInterrupt Decision = "interrupt" // ask a question, in a hook that is no gate
	decideRespond   Decision = "respond"   // answer instead of the model or the tool
	decideRepeat    Decision = "repeat"    // call the model or the tool again
)

// An answerParts collects the texts and the decisions of an answer.
type answerParts struct {
	texts     []string
	decisions []Decision
}

// describe returns the texts and the decisions of an answer, which points to a type of package abi. A text is
// the content of a message or a result, the arguments of a call, the joined text of chunks, the instruction
// of an agent, or the reason of a gate.
func describe(answer any) (texts []string, decisions []Decision) {
	var p answerParts
	if e, ok := answer.(interface{ Ending() *abi.Control }); ok {
		p.control(e.Ending())
	}
	switch a := answer.(type) {
	case *abi.BeforeAgentAnswer:
		p.text(a.Instruction)
		p.list(&a.Messages)
		p.respond(a.Respond)
	case *abi.BeforeModelRewriteStateAnswer:
		p.list(&a.Messages)
	case *abi.AfterModelRewriteStateAnswer:
		p.list(&a.Messages)
	case *abi.AfterToolsAnswer:
		p.list(&a.Messages)
	case *abi.BeforeModelAnswer:
		p.list(&a.Request.Messages)
		if a.Response != nil {
			p.respond(&a.Response.Message)
		}
	case *abi.WrapModelAnswer:
		p.response(a.Response)
	case *abi.AfterModelAnswer:
		p.response(a.Response)
		if a.Again != nil {
			p.decide(decideRepeat)
			p.list(&a.Again.Request.Messages)
		}
	case *abi.OnChunkAnswer:
		p.chunks(a.Chunks)
	case *abi.BeforeToolAnswer:
		p.text(a.Arguments)
		if a.Result != nil {
			p.decide(decideRespond)
			p.result(a.Result)
		}
	case *abi.WrapToolCallAnswer:
		p.result(a.Result)
	case *abi.CallToolAnswer:
		p.result(a.Result)
	case *abi.AfterToolAnswer:
		p.result(a.Result)
		if a.Again != nil {
			p.decide(decideRepeat)
			p.text(a.Again.Arguments)
		}
	case *abi.GateToolAnswer:
		p.gate(a)
	case *abi.ToolMessagesAnswer:
		p.messages(a.Messages)
	case *abi.AfterAgentAnswer:
		p.message(a.Final)
	}
	return p.texts, p.decisions
}

func (p *answerParts) decide(d Decision) { p.decisions = append(p.decisions, d) }

// control adds the decision of an answer that stops or pauses the run.
func (p *answerParts) control(c *abi.Control) {
	switch {
	case c.Stop != nil:
		p.decide(abi.DecideStop)
	case c.Interrupt != nil:
		p.decide(decideInterrupt)
	}
}

// gate adds the decision of a gate. The host turns a gate's interrupt into the decision to ask.
func (p *answerParts) gate(a *abi.GateToolAnswer) {
	if a.Decision != "" {
		p.decisions = []Decision{Decision(a.Decision)}
	}
	if a.Message != "" {
		p.text(&a.Message)
	}
}

func (p *answerParts) text(s *string) {
	if s != nil {
		p.texts = append(p.texts, *s)
	}
}

func (p *answerParts) message(m *abi.Message) {
	if m != nil {
		text := MessageText(m)
		p.text(&text)
	}
}

func (p *answerParts) messages(list []abi.Message) {
	for i := range list {
		p.message(&list[i])
	}
}

func (p *answerParts) list(l *abi.ListPatch) {
	p.messages(l.Replace)
	for i := range l.Splice {
		p.messages(l.Splice[i].Insert)
	}
}

func (p *answerParts) response(r *abi.Response) {
	if r != nil {
		p.message(&r.Message)
	}
}

// respond adds a message that is used instead of a call of the model.
func (p *answerParts) respond(m *abi.Message) {
	if m != nil {
		p.decide(decideRespond)
		p.message(m)
	}
}

func (p *answerParts) result(r *abi.Result) {
	if r != nil {
		text := ContentText(r.Content)
		p.text(&text)
	}
}

// chunks adds the joined text of chunks. It adds nothing if list is nil, which leaves the chunks
// unchanged.
func (p *answerParts) chunks(list []abi.Chunk) {
	if list == nil {
		return
	}
	var b strings.Builder
	for i := range list {
		b.WriteString(list[i].Text)
		b.WriteString(list[i].Arguments)
	}
	text := b.String()
	p.text(&text)
}

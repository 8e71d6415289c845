package agent

import (
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// wentOn is the reason in the result of a call that had none when the conversation continued.
const wentOn = "the conversation went on before it was answered"

// maxRepairs is the maximum number of repair events of one repair. One more event has the number of
// the remaining changes.
const maxRepairs = 64

// A repair changes messages into a form that model APIs accept: each tool call has one result,
// directly after its message, and each result has a call. It emits an event for each change.
type repair struct {
	run *run
	why string // the reason in the results of calls that were not made
	n   int64  // number of changes
}

// repair repairs the conversation. It is called before each model call and at the end of the run,
// and examines only messages that changed since the last call.
func (r *run) repair(why string) {
	s := &r.state
	if from := s.Messages.Changed(r.repaired); !s.Messages.Paired(from) {
		fix := repair{run: r, why: why}
		s.Messages = fix.apply(s.Messages, from, fix.answer)
	}
	r.repaired = s.Messages.Revision()
}

// repairRequest repairs the messages of a model request where modules changed them.
func (r *run) repairRequest(q *message.List) *message.List {
	if q == r.asked {
		return q
	}
	from := q.Changed(r.asked.Revision())
	if q.Paired(from) {
		return q
	}
	fix := repair{run: r}
	return fix.apply(q, from, fix.answerRequest)
}

// apply returns l, repaired from index from on, and emits the events of the repair. answer returns
// the result of a call that has none.
func (f *repair) apply(
	l *message.List,
	from int,
	answer func(c *abi.ToolCall, m *abi.Message) abi.Message,
) *message.List {
	l = l.Pair(from, &message.Pairing{Answer: answer, Moved: f.moved, Orphan: f.orphan})
	if f.n > maxRepairs {
		f.run.emit(abi.Event{Type: abi.EventRepair, Action: contract.RepairOmitted, Value: f.n - maxRepairs})
	}
	return l
}

// report emits a repair event with the given action, about the call with the given ID of the tool
// called name. It emits no event after the first maxRepairs.
func (f *repair) report(action, id, name string) {
	if f.n++; f.n > maxRepairs {
		return
	}
	call := &abi.Call{ID: safetext.Clip(id, contract.MaxName), Name: safetext.Clip(name, contract.MaxName)}
	f.run.emit(abi.Event{Type: abi.EventRepair, Action: action, Call: call})
}

func (f *repair) moved(m *abi.Message) { f.report(contract.RepairMoved, m.ToolCallID, m.Name) }

// orphan returns the message that replaces m, a result without a call. It returns nil if the agent
// does not keep such results.
func (f *repair) orphan(m *abi.Message) *abi.Message {
	if !f.run.agent.KeepOrphanResults {
		f.report(contract.RepairRemoved, m.ToolCallID, m.Name)
		return nil
	}
	f.report(contract.RepairKept, m.ToolCallID, m.Name)
	return asText(m)
}

// asText returns a message of the user with the content of m, a tool's result. The message has the
// ID, the origin and the labels of m, and the label of the host in addition.
func asText(m *abi.Message) *abi.Message {
	head := "Result of a tool call that is not in the conversation:"
	if m.Name != "" {
		head = fmt.Sprintf("Result of a call of the tool %s that is not in the conversation:", m.Name)
	}
	out := abi.Message{Role: abi.RoleUser, ID: m.ID, Origin: m.Origin, Extra: m.Extra}
	if m.Content.IsParts() {
		out.Content = abi.Parts(append([]abi.Part{{Type: abi.PartText, Text: head}}, m.Content.Parts()...)...)
	} else {
		out.Content = abi.Text(head + "\n" + m.Content.String())
	}
	message.SetLabels(&out, message.JoinLabels(message.Labels(m), []string{abi.OriginHost}))
	return &out
}

// answerRequest returns a result for call c, whose result modules removed from a request.
func (f *repair) answerRequest(c *abi.ToolCall, _ *abi.Message) abi.Message {
	f.report(contract.RepairAnswered, c.ID, c.Function.Name)
	return f.result(c, fmt.Sprintf("The result of this call of %s is not in the conversation.", c.Function.Name))
}

func (f *repair) result(c *abi.ToolCall, text string) abi.Message {
	m := toolMessage(chain.ToolOutcome{
		Call:   abi.Call{ID: c.ID, Name: c.Function.Name},
		Result: abi.ErrorResult(text),
		Source: "host",
	})
	m.ID = f.run.NewID()
	return m
}

// answer returns a result for call c of message m, which has none: the call was not executed, did
// not complete, or its result was removed. If this run's model made the call, answer sends the
// call's events to the caller, unless they were sent before.
func (f *repair) answer(c *abi.ToolCall, m *abi.Message) abi.Message {
	r, s := f.run, &f.run.state
	dispatched := slices.Contains(s.Rounds, m.ID)
	var made *runlog.CallState
	if n := len(s.Rounds); n > 0 && s.Rounds[n-1] == m.ID {
		if at := slices.IndexFunc(s.Calls, func(s runlog.CallState) bool { return s.Call.ID == c.ID }); at >= 0 {
			made = &s.Calls[at]
		}
	}
	why := f.why
	if r.ids[m.ID] && why != wentOn {
		why = endedBefore
	}
	text := fmt.Sprintf("The call of %s was not run: %s.", c.Function.Name, why)
	switch {
	case made != nil && made.Result != nil, made == nil && dispatched:
		text = fmt.Sprintf("The result of this call of %s is no longer in the conversation.", c.Function.Name)
	case made != nil && made.Ran:
		text = fmt.Sprintf("The call of %s was made; its result was withheld when the run ended.", c.Function.Name)
	case made != nil && made.Started:
		text = fmt.Sprintf("The call of %s was cut off when the run ended. Whether it had an effect is not known.",
			c.Function.Name)
	}
	result := f.result(c, text)
	if r.ids[m.ID] || dispatched && (made == nil || made.Result != nil) {
		f.report(contract.RepairAnswered, c.ID, c.Function.Name)
		return result
	}
	call := abi.Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments}
	if made == nil || !made.Announced {
		r.emit(abi.Event{Type: abi.EventToolCall, Call: &call})
	}
	r.emit(abi.Event{Type: abi.EventToolResult, Call: &call, Result: abi.ErrorResult(text), Source: "host"})
	return result
}

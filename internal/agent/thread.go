package agent

import (
	"encoding/json"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain/message"
)

// endThread returns the change of the run's thread, or nil if the thread does not change. e is the
// run's last event.
func (r *run) endThread(e *abi.Event) *journal.ThreadEnd {
	if r.thread == nil {
		return nil
	}
	return ThreadEnd(&r.state, e.Error == nil && e.FinishReason != abi.RunStopped)
}

// ThreadEnd returns the change of a run's thread at the end of the run, or nil if the thread does
// not change. If answered is set, because the run answered or was canceled, the run's messages
// become the messages of the thread. Otherwise ThreadEnd leaves out the run's input and all later
// messages. It keeps the changes of modules to earlier messages, because the thread must not
// contain text that they erased.
func ThreadEnd(s *runlog.State, answered bool) *journal.ThreadEnd {
	messages := s.Messages.All()
	if !answered {
		messages = withoutInput(s, messages)
	}
	from := min(s.Unchanged, len(messages))
	if from == s.Base && len(messages) == s.Base {
		return nil
	}
	left := message.NewList(message.NewRevisions(), messages)
	end := &journal.ThreadEnd{From: from, Title: runlog.ThreadTitle(left)}
	for i := from; i < left.Len(); i++ {
		b := left.JSON(i, i+1)
		end.Items = append(end.Items, json.RawMessage(b[1:len(b)-1])) // remove the brackets of the array
	}
	return end
}

// withoutInput returns the messages before the run's own input. If modules removed the input, it
// returns the remaining messages of the thread.
func withoutInput(s *runlog.State, messages []abi.Message) []abi.Message {
	base, input := map[string]bool{}, map[string]bool{}
	for i, id := range s.Input {
		if i < s.Base {
			base[id] = true
		} else {
			input[id] = true
		}
	}
	var kept []abi.Message
	for i := range messages {
		if input[messages[i].ID] {
			return messages[:i]
		}
		if base[messages[i].ID] {
			kept = append(kept, messages[i])
		}
	}
	return kept
}

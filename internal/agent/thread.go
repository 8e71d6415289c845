package agent

import (
	"encoding/json"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain/message"
)

// endThread returns what the run leaves of its thread, or nil if the thread stays as it is. e is the
// run's last event.
func (r *run) endThread(e *abi.Event) *journal.ThreadEnd {
	if r.thread == nil {
		return nil
	}
	return ThreadEnd(&r.state, e.Error == nil && e.FinishReason != abi.RunStopped)
}

// ThreadEnd returns what a run leaves of its thread, or nil if the thread stays as it is. The
// messages of a run that answered, or was canceled, become those of the thread. A run that did not
// answer leaves its input and what followed out, but keeps what its modules made of the earlier
// messages: the thread must not have text that they erased from the run.
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
		end.Items = append(end.Items, json.RawMessage(b[1:len(b)-1])) // without the brackets of an array
	}
	return end
}

// withoutInput returns the messages before the first one of the run's own input. If modules removed
// that, it returns the messages of the thread that are left.
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

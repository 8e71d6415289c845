package invoke

import (
	"strconv"

	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/module/replay"
)

// MessagesBriefly is like Messages, but the reply is valid only until the next host call.
func (inv *Invocation) MessagesBriefly(list, from, to int) ([]byte, error) {
	var buffer []byte
	if inv.Recorder == nil { // the recorder stores the reply
		buffer = inv.replyBuffer[:0]
	}
	reply, err := inv.appendMessages(buffer, list, from, to)
	if err == nil && inv.Replay == nil {
		inv.replyBuffer = reply
	}
	return reply, err
}

// Messages returns, as JSON, the messages of a list with indices in [from, to).
func (inv *Invocation) Messages(list, from, to int) ([]byte, error) {
	return inv.appendMessages(nil, list, from, to)
}

func (inv *Invocation) appendMessages(buffer []byte, list, from, to int) ([]byte, error) {
	return inv.Ask(func() replay.HostCall {
		return replay.HostCall{Name: "messages", Numbers: []int64{int64(list), int64(from), int64(to)}}
	}, func() ([]byte, error) {
		return hook.ControlOf(inv.Call).AppendMessages(buffer, list, from, to, inv.Limits.ReplyBytes)
	})
}

// Changed returns the index of the first message of a list that changed since a revision.
func (inv *Invocation) Changed(list int, revision int64) (int, error) {
	reply, err := inv.Ask(func() replay.HostCall {
		return replay.HostCall{Name: "changed", Numbers: []int64{int64(list), revision}}
	}, func() ([]byte, error) {
		first, err := hook.ControlOf(inv.Call).Changed(list, revision)
		return strconv.AppendInt(nil, int64(first), 10), err
	})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(reply))
}

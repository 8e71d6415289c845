package gatewaytest

import (
	"encoding/json"
	"strings"
)

// A Received describes the part of a stream that a client received.
type Received struct {
	Text   string
	Calls  []string // the names of the tools whose calls began
	Failed bool     // an event reports an error
	Ended  bool     // the stream has the event after which no part of the answer follows
}

// Receive reads a stream, which may end early. It ignores a last event that is not complete.
func Receive(protocol, stream string) *Received {
	r := &Received{}
	for event := range strings.SplitAfterSeq(stream, "\n\n") {
		_, data, ok := strings.Cut("\n"+strings.TrimSuffix(event, "\n\n"), "\ndata: ")
		if !ok || !strings.HasSuffix(event, "\n\n") {
			continue
		}
		var e streamEvent
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			continue // the end mark of chat
		}
		r.add(protocol, &e)
	}
	return r
}

// A streamEvent is an event of any protocol.
type streamEvent struct {
	Type    string
	Error   json.RawMessage
	Delta   json.RawMessage // a string in Responses, an object in Messages
	Item    named
	Content named `json:"content_block"`
	Choices []struct {
		Reason *string `json:"finish_reason"`
		Delta  struct {
			Content   string
			ToolCalls []struct{ Function named } `json:"tool_calls"`
		}
	}
}

type named struct{ Type, Name string }

func (r *Received) add(protocol string, e *streamEvent) {
	r.Failed = r.Failed || len(e.Error) > 0 && string(e.Error) != "null" || e.Type == "response.failed"
	switch {
	case protocol == Chat:
		for _, c := range e.Choices {
			r.Text += c.Delta.Content
			r.Ended = r.Ended || c.Reason != nil
			for _, call := range c.Delta.ToolCalls {
				r.call(call.Function.Name)
			}
		}
	case e.Type == "message_stop", e.Type == "response.completed":
		r.Ended = true
	case e.Type == "content_block_delta":
		var delta struct{ Text string }
		_ = json.Unmarshal(e.Delta, &delta)
		r.Text += delta.Text
	case e.Type == "response.output_text.delta":
		var delta string
		_ = json.Unmarshal(e.Delta, &delta)
		r.Text += delta
	case e.Type == "content_block_start":
		r.call(e.Content.Name)
	case e.Type == "response.output_item.added":
		r.call(e.Item.Name)
	}
}

// call records the beginning of a call. Other blocks and items have no name.
func (r *Received) call(name string) {
	if name != "" {
		r.Calls = append(r.Calls, name)
	}
}

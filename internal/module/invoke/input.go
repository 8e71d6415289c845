package invoke

import (
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// Encode sets inv.Input to the JSON of in and the messages that the entry may read. It counts the
// memory of both towards the run's memory.
func (inv *Invocation) Encode(in any) (err error) {
	if inv.Input, err = inv.encoded(in); err == nil {
		err = inv.hold(int64(len(inv.Input)))
	}
	inv.Pending = inv.Input
	return err
}

func (inv *Invocation) encoded(in any) ([]byte, error) {
	var b []byte
	var err error
	if inv.Recorder != nil { // the recorder keeps the input
		b, err = abijson.Marshal(in)
	} else {
		b, err = abijson.AppendJSON(inv.inputBuffer, in)
		inv.inputBuffer = b[:0]
	}
	items, n := hook.ControlOf(inv.Call).Shown()
	if err != nil || items == nil {
		return b, err
	}
	if err := inv.hold(int64(len(b))); err != nil { // the call accounts for items already
		return nil, err
	}
	object := b
	if n == abi.ListRequest {
		object = jsoncodec.FieldOf(b, "request")
	}
	list := jsoncodec.FieldOf(object, "messages")
	if list == nil {
		return nil, fmt.Errorf("it has no list %d of messages", n)
	}
	const key = `,"items":`
	end := cap(b) - cap(list) + len(list) - 1 // position of the list's closing brace
	out := make([]byte, 0, len(b)+len(key)+len(items))
	out = jsoncodec.Append(append(jsoncodec.Append(out, b[:end]), key...), items)
	return jsoncodec.Append(out, b[end:]), nil
}

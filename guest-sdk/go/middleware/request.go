package middleware

import (
	"bytes"
	"maps"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/internal/clone"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A Request is a model call as it will be sent. A hook may change Messages, Tools, Model
// and Params in any way, for this call only.
type Request struct {
	Messages *Messages
	Tools    []abi.Tool
	Model    string
	// Params are the parameters by their OpenAI names. It is never nil.
	Params abi.Params

	// Stream reports whether the answer is streamed.
	Stream bool

	shown      *abi.Request
	streamArgs streamArgs
}

func (c *call) request(in *abi.Request) *Request {
	r := &Request{
		Messages: c.list(in.Messages), Tools: slices.Clone(in.Tools), Model: in.Model, Params: maps.Clone(in.Params),
		Stream: in.Stream, shown: in,
	}
	if r.Params == nil {
		r.Params = abi.Params{}
	}
	return r
}

// SetParam sets a parameter of the call by its OpenAI name, for example SetParam("temperature", 0.2). It returns an
// error if value cannot be encoded as JSON.
func (r *Request) SetParam(name string, value any) error {
	return setParam(r.Params, name, value)
}

// patch returns the changes since the hook received the request. It fails if the model was removed
// or if a change is invalid.
func (r *Request) patch() (abi.RequestPatch, error) {
	var out abi.RequestPatch
	if r.Model != r.shown.Model {
		if r.Model == "" {
			return out, misuse("a request needs a model")
		}
		out.Model = r.Model
	}
	out.Params = paramsPatch(r.shown.Params, r.Params)
	var err error
	if out.Tools, err = clone.ToolsPatch(r.shown.Tools, r.Tools); err != nil {
		return out, err
	}
	out.Messages, err = r.Messages.patch()
	return out, err
}

// paramsPatch returns the patch that changes parameters from old to now, or nil if they are the same.
func paramsPatch(old, now abi.Params) abi.Params {
	patch := abi.Params{}
	for name, value := range now {
		if was, ok := old[name]; !ok || !bytes.Equal(was, value) {
			patch[name] = value
		}
	}
	for name := range old {
		if _, ok := now[name]; !ok {
			patch[name] = []byte("null")
		}
	}
	if len(patch) == 0 {
		return nil
	}
	return patch
}

// setParam sets a parameter to the JSON of value.
func setParam(params abi.Params, name string, value any) error {
	raw, err := abijson.MarshalValue(value)
	if err != nil {
		return jsoncodec.Wrap("encode parameter "+name, err)
	}
	params[name] = raw
	return nil
}

// cloneOf sets r to a copy of another request that can be changed independently.
func (r *Request) cloneOf(from *Request) {
	*r = *from
	r.Messages = from.Messages.clone()
	r.Tools = slices.Clone(from.Tools)
	r.Params = maps.Clone(from.Params)
}

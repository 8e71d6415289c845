package five

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// A Remote runs the five middlewares for a remote caller, such as a plug-in host or an HTTP client.
// It receives the whole input of a hook as JSON.
type Remote struct {
	codec  Codec
	mu     sync.Mutex
	cached map[string]map[string]json.RawMessage // cached answers, by run and then by key
	counts map[string]map[string]int
}

// A Codec reads inputs and writes answers.
type Codec struct {
	Read  func(b []byte, v any) error
	Write func(v any) ([]byte, error)
}

var (
	// Usual is encoding/json, as plug-in SDKs use it.
	Usual = Codec{json.Unmarshal, json.Marshal}
	// Fast is this project's codec, as its guests use it.
	Fast = Codec{fastRead, abijson.Marshal}
)

// fastRead reads a hook's input as a guest does, and other values with encoding/json.
func fastRead(b []byte, v any) error {
	var in abijson.Readable
	switch v := v.(type) {
	case *abi.BeforeModelRewriteStateInput:
		in = (*abijson.BeforeModelRewriteStateInput)(v)
	case *abi.GateToolInput:
		in = (*abijson.GateToolInput)(v)
	case *abi.OnChunkInput:
		in = (*abijson.OnChunkInput)(v)
	case *abi.AfterToolInput:
		in = (*abijson.AfterToolInput)(v)
	case *abi.ObserveInput:
		in = (*abijson.ObserveInput)(v)
	default:
		return json.Unmarshal(b, v)
	}
	return abijson.Read(b, in)
}

// NewRemote returns a Remote with an empty cache.
func NewRemote(codec Codec) *Remote {
	return &Remote{codec: codec, cached: map[string]map[string]json.RawMessage{}, counts: map[string]map[string]int{}}
}

// Kept is the input of cache_get, cache_put, counts and end, and the output of cache_get.
type Kept struct {
	Run    string          `json:"run"`
	Call   abi.Call        `json:"call"`
	Result json.RawMessage `json:"result,omitempty"`
}

// Call runs the function of a middleware that hook names, such as "policy" or "cache_get", and
// returns its answer. It fails if the function does not exist.
func (r *Remote) Call(hook string, input []byte) ([]byte, error) {
	switch hook {
	case "patch":
		var in abi.BeforeModelRewriteStateInput
		if err := r.codec.Read(input, &in); err != nil {
			return nil, err
		}
		return r.codec.Write(&abi.BeforeModelRewriteStateAnswer{Messages: abi.ListPatch{Splice: Patch(in.Messages.Items)}})
	case "policy":
		var in abi.GateToolInput
		if err := r.codec.Read(input, &in); err != nil {
			return nil, err
		}
		if ok, why := Allowed(in.Call.Name, in.Call.Arguments); !ok {
			return r.codec.Write(&abi.GateToolAnswer{Decision: "deny", Message: why})
		}
		return r.codec.Write(&abi.GateToolAnswer{Decision: "allow"})
	case "redact_chunks":
		var in abi.OnChunkInput
		if err := r.codec.Read(input, &in); err != nil {
			return nil, err
		}
		for i := range in.Chunks {
			in.Chunks[i].Text, _ = Redact(in.Chunks[i].Text)
		}
		return r.codec.Write(&abi.OnChunkAnswer{Chunks: in.Chunks})
	case "redact_result":
		var in abi.AfterToolInput
		if err := r.codec.Read(input, &in); err != nil {
			return nil, err
		}
		if in.Result == nil {
			return []byte("{}"), nil
		}
		text, n := Redact(in.Result.Content.String())
		if n == 0 {
			return []byte("{}"), nil
		}
		in.Result.Content = abi.Text(text)
		return r.codec.Write(&abi.AfterToolAnswer{Result: in.Result})
	case "cache_get", "cache_put":
		return r.cache(hook, input)
	case "observe":
		var in abi.ObserveInput
		if err := r.codec.Read(input, &in); err != nil {
			return nil, err
		}
		r.observe(&in)
		return []byte("{}"), nil
	case "counts":
		var in Kept
		if err := r.codec.Read(input, &in); err != nil {
			return nil, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		defer delete(r.counts, in.Run)
		return r.codec.Write(r.counts[in.Run])
	case "end":
		var in Kept
		if err := r.codec.Read(input, &in); err != nil {
			return nil, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.cached, in.Run)
		return []byte("{}"), nil
	}
	return nil, fmt.Errorf("there is no hook %q", hook)
}

func (r *Remote) cache(hook string, input []byte) ([]byte, error) {
	var in Kept
	if err := r.codec.Read(input, &in); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := Key(in.Call.Name, in.Call.Arguments)
	if hook == "cache_put" {
		if r.cached[in.Run] == nil {
			r.cached[in.Run] = map[string]json.RawMessage{}
		}
		r.cached[in.Run][key] = in.Result
		return []byte("{}"), nil
	}
	return r.codec.Write(Kept{Result: r.cached[in.Run][key]})
}

func (r *Remote) observe(in *abi.ObserveInput) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts[in.Run.ID] == nil {
		r.counts[in.Run.ID] = map[string]int{}
	}
	Count(r.counts[in.Run.ID], in.Events)
}

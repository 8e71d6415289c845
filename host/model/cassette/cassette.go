// Package cassette records conversations with a model in a file and replays them.
//
// The file is a JSON document with one message, tool or chunk per line, so that it is easy
// to review:
//
//	{
//	  "version": 1,
//	  "interactions": [
//	    {
//	      "model": "gpt-5",
//	      "messages": [
//	        {"role": "user", "content": "What time is it?"}
//	      ],
//	      "tools": [
//	        {"name": "now", "parameters": {"type": "object"}}
//	      ],
//	      "response": {"message": {…}, "finish_reason": "tool_calls"}
//	    },
//	    {
//	      "model": "gpt-5",
//	      "same": 1,
//	      "messages": [
//	        …
//
// An interaction is a request with its response or error. Since conversations grow at the
// end, an interaction starts with the first "same" messages of the previous one;
// "same_tools" copies the previous tools. The chunks of a streamed response are recorded in
// addition to the response. The file does not contain keys and headers, nor the ids,
// origins and extras of messages, which are internal to the host.
package cassette

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// version is the version of the file format.
const version = 1

// maxMessages is the maximum number of messages in all requests of a cassette, since "same"
// makes many messages out of a few bytes.
const maxMessages = 1 << 20

// A Cassette is a recorded conversation.
type Cassette struct {
	name         string
	interactions []interaction
}

// An interaction is a request with all its messages, and its result.
type interaction struct {
	Model     string        `json:"model"`
	Same      int           `json:"same"` // number of messages shared with the previous interaction
	Messages  []abi.Message `json:"messages"`
	SameTools bool          `json:"same_tools"`
	Tools     []tool        `json:"tools"`
	Params    abi.Params    `json:"params"`
	Chunks    []abi.Chunk   `json:"chunks"`
	Response  *abi.Response `json:"response"`
	Error     *abi.Error    `json:"error"`
}

// A tool is the part of a tool declaration that a model sees.
type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// recordedMessages returns copies of messages with only the fields that a model sees.
func recordedMessages(in []abi.Message) []abi.Message {
	out := make([]abi.Message, len(in))
	for i, m := range in {
		m.ID, m.Origin, m.Extra = "", "", nil
		out[i] = m
	}
	return out
}

func recordedTools(in []abi.Tool) []tool {
	out := make([]tool, len(in))
	for i, t := range in {
		if string(t.Parameters) == "null" {
			t.Parameters = nil
		}
		out[i] = tool{t.Name, t.Description, t.Parameters}
	}
	return out
}

// Load reads a cassette file. An error in its content names the file, the line and the cause.
func Load(path string) (*Cassette, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read cassette: %w", err)
	}
	return parse(path, b)
}

// parse parses a cassette. name is its name in errors.
func parse(name string, b []byte) (*Cassette, error) {
	p := parser{name: name, b: b}
	var doc struct {
		Version      int               `json:"version"`
		Interactions []json.RawMessage `json:"interactions"`
	}
	unknown, err := abijson.Decode(b, &doc)
	switch {
	case err != nil:
		return nil, p.refuse(0, err)
	case len(unknown) > 0:
		return nil, p.errorf(p.find(0, unknown[0]), "unknown key %q; want version and interactions", unknown[0])
	case doc.Version != version:
		return nil, p.errorf(p.find(0, "version"), "version %d is not known; this program reads version %d",
			doc.Version, version)
	}
	c := &Cassette{name: name}
	offsets := p.elements("interactions")
	for i, raw := range doc.Interactions {
		var before *interaction
		if i > 0 {
			before = &c.interactions[i-1]
		}
		next, err := p.interaction(raw, offsets[i], before)
		if err != nil {
			return nil, err
		}
		c.interactions = append(c.interactions, *next)
	}
	return c, nil
}

// A parser tracks line numbers for errors.
type parser struct {
	name  string
	b     []byte
	total int // messages of all interactions so far
}

func (p *parser) errorf(offset int, format string, args ...any) error {
	line := 1 + bytes.Count(p.b[:min(offset, len(p.b))], []byte("\n"))
	return fmt.Errorf("%s:%d: not a cassette: %w", p.name, line, fmt.Errorf(format, args...))
}

// refuse adds a position to an error of abijson.Decode. start is the offset of the decoded value.
func (p *parser) refuse(start int, err error) error {
	var at *jsoncodec.DecodeError
	if errors.As(err, &at) {
		return p.errorf(start+at.Offset, "%s", at.Reason())
	}
	return p.errorf(start, "%w", err)
}

// find returns the position of a key after start, or start if the key is missing.
func (p *parser) find(start int, path string) int {
	key := path[strings.LastIndexByte(path, '.')+1:]
	if i := bytes.Index(p.b[start:], []byte(`"`+key+`"`)); i >= 0 {
		return start + i
	}
	return start
}

// elements returns the offsets of the elements of the array under key. The text must be
// valid JSON.
func (p *parser) elements(key string) []int {
	dec := json.NewDecoder(bytes.NewReader(p.b))
	_, _ = dec.Token() // {
	var out []int
	for dec.More() {
		name, _ := dec.Token()
		var raw json.RawMessage
		if name != key {
			_ = dec.Decode(&raw)
			continue
		}
		if t, _ := dec.Token(); t == nil {
			continue // null
		}
		for dec.More() {
			_ = dec.Decode(&raw)
			out = append(out, int(dec.InputOffset())-len(raw))
		}
		_, _ = dec.Token() // ]
	}
	return out
}

// interaction decodes and checks the interaction at offset start. It adds the messages and tools
// that the interaction shares with before, the previous one.
func (p *parser) interaction(raw json.RawMessage, start int, before *interaction) (*interaction, error) {
	var it interaction
	unknown, err := abijson.Decode(raw, &it)
	switch {
	case err != nil:
		return nil, p.refuse(start, err)
	case len(unknown) > 0:
		return nil, p.errorf(p.find(start, unknown[0]), "unknown key %q", unknown[0])
	case (it.Response == nil) == (it.Error == nil):
		return nil, p.errorf(start, "an interaction needs a response or an error, and not both")
	case it.Same < 0 || before == nil && it.Same > 0 || before != nil && it.Same > len(before.Messages):
		return nil, p.errorf(p.find(start, "same"), `"same": %d, but the interaction before has not so many messages`,
			it.Same)
	case it.SameTools && (before == nil || it.Tools != nil):
		return nil, p.errorf(p.find(start, "same_tools"),
			`"same_tools" takes the place of tools, and needs an interaction before`)
	}
	for i := range it.Chunks {
		if err := contract.CheckChunk(&it.Chunks[i]); err != nil {
			return nil, p.errorf(p.find(start, "chunks"), "chunks[%d]: %w", i, err)
		}
	}
	it.Messages = recordedMessages(it.Messages)
	if it.Same > 0 {
		it.Messages = append(before.Messages[:it.Same:it.Same], it.Messages...)
	}
	if p.total += len(it.Messages); p.total > maxMessages {
		return nil, p.errorf(start, "its interactions have more than %d messages together", maxMessages)
	}
	if it.SameTools {
		it.Tools = before.Tools
	}
	if r := it.Response; r != nil {
		complete(r)
	}
	return &it, nil
}

// complete sets the optional fields of a handwritten response.
func complete(r *abi.Response) {
	if r.Message.Role == "" {
		r.Message.Role = abi.RoleAssistant
	}
	if r.FinishReason == "" {
		r.FinishReason = abi.FinishStop
		if len(r.Message.ToolCalls) > 0 {
			r.FinishReason = abi.FinishToolCalls
		}
	}
}

// failure converts a recorded error to a model error.
func failure(e *abi.Error) *model.Error {
	return &model.Error{
		Code: e.Code, Message: e.Message, Status: e.Status, Retryable: e.Retryable,
		RetryAfter: time.Duration(e.RetryAfterMS) * time.Millisecond,
	}
}

func recordedFailure(e *model.Error) *abi.Error {
	return &abi.Error{
		Code: e.Code, Message: e.Message, Status: e.Status, Retryable: e.Retryable,
		RetryAfterMS: e.RetryAfter.Milliseconds(),
	}
}

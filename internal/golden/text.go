package golden

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
)

// Lines returns the lines of text without surrounding space. It omits empty lines and comments,
// which begin with #.
func Lines(text []byte) []string {
	var out []string
	for l := range strings.Lines(string(text)) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") {
			out = append(out, l)
		}
	}
	return out
}

// toolLine matches "name: result", "name! error", "name!! panic", "name after other: result", "name
// cancels: result" and "name streams: chunk|chunk". Arguments may follow the name.
var toolLine = regexp.MustCompile(`^(\S+?)(?: (\{.*?\}))?(?: after (\S+)| (cancels)| (streams))?(:|!!?) (.*)$`)

// parseTools parses lines of the form that toolLine matches. Each line is a turn, and the lines of
// the same tool are its turns in order. A tool streams if its first turn does. parseTools also
// returns, by tool, the arguments that each turn states, or "".
func parseTools(data []byte) (out []wire.Tool, arguments map[string][]string, err error) {
	out, arguments = []wire.Tool{}, map[string][]string{}
	for _, l := range Lines(data) {
		f := toolLine.FindStringSubmatch(l)
		if f == nil {
			return nil, nil, fmt.Errorf("%q is no tool; want \"name: result\", \"name! error\" or \"name!! panic\"", l)
		}
		name, streams, text := f[1], f[5] != "", unescape(f[7])
		if tool, ok := strings.CutSuffix(name, "!"); ok {
			return nil, nil, fmt.Errorf("%q: a tool that fails is written without a colon: %q", l, tool+"! "+f[7])
		}
		if f[2] != "" && !json.Valid([]byte(f[2])) {
			return nil, nil, fmt.Errorf("%q: the arguments are no JSON object", l)
		}
		arguments[name] = append(arguments[name], f[2])
		turn := wire.Turn{After: f[3], Cancels: f[4] != ""}
		switch {
		case streams:
			turn.Chunks = strings.Split(text, "|")
			if f[6] != ":" {
				last := len(turn.Chunks) - 1
				turn.Error, turn.Chunks = turn.Chunks[last], turn.Chunks[:last]
			}
		case f[6] == "!":
			turn.Error = text
		case f[6] == "!!":
			turn.Panic = text
		default:
			turn.Text = text
		}
		i := slices.IndexFunc(out, func(t wire.Tool) bool { return t.Name == name })
		if i < 0 {
			i = len(out)
			out = append(out, wire.Tool{Name: name, Streams: streams})
		}
		if out[i].Streams != streams {
			return nil, nil, fmt.Errorf("%q: all lines of a tool stream, or none", l)
		}
		out[i].Turns = append(out[i].Turns, turn)
	}
	return out, arguments, nil
}

func parseMessages(data []byte) ([]abi.Message, error) {
	out := []abi.Message{}
	for _, l := range Lines(data) {
		m, err := parseMessage(l)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// parseAnswers parses one answer per line: JSON for all interrupts of a pause, or "#ID JSON" for
// the interrupt of one tool call.
func parseAnswers(data []byte) ([]wire.Answer, error) {
	var out []wire.Answer
	for _, l := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		a := wire.Answer{Value: json.RawMessage(l)}
		if call, value, ok := strings.Cut(strings.TrimPrefix(l, "#"), " "); ok && l[0] == '#' {
			a = wire.Answer{Call: call, Value: json.RawMessage(value)}
		}
		if !json.Valid(a.Value) {
			return nil, fmt.Errorf("%q is no answer; want JSON, or \"#call JSON\"", l)
		}
		out = append(out, a)
	}
	return out, nil
}

// parseReplies parses one reply per line: a message, "size N MESSAGE" for a message that is streamed
// in chunks of N characters, or the JSON of a [wire.Reply].
func parseReplies(data []byte) ([]wire.Reply, error) {
	out := []wire.Reply{}
	for _, l := range Lines(data) {
		r, err := parseReply(l)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", l, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// parseReply parses a line that describes a reply of the model.
func parseReply(l string) (r wire.Reply, err error) {
	if strings.HasPrefix(l, "{") {
		unknown, err := abijson.Decode([]byte(l), &r)
		switch {
		case err != nil:
			return r, err
		case len(unknown) > 0:
			return r, fmt.Errorf("unknown key %q", unknown[0])
		case r.Message == nil && r.Error == nil && !r.Hang:
			return r, errors.New("a reply needs a message, an error or hang")
		case r.Message != nil && r.Error != nil:
			return r, errors.New("a reply has a message or an error")
		}
		finish(&r)
		return r, nil
	}
	if rest, ok := strings.CutPrefix(l, "size "); ok {
		n, message, _ := strings.Cut(rest, " ")
		if r.Size, err = strconv.Atoi(n); err != nil {
			return r, err
		}
		l = message
	}
	m, err := parseMessage(l)
	r.Message = &m
	finish(&r)
	return r, err
}

// finish sets the defaults of a reply with a message: the role assistant, and the finish reason
// that matches the message.
func finish(r *wire.Reply) {
	if r.Message == nil {
		return
	}
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

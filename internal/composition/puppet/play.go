package puppet

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// A Host has the functions that a puppet calls during a hook.
type Host interface {
	// Tell emits a custom event with a name and text.
	Tell(name, text string) error
	// Next makes the wrapped call. For a model call, patch is an *abi.RequestPatch and the reply an
	// *abi.Response. For a tool call, patch is an *abi.CallPatch and the reply an *abi.Result.
	Next(patch any) (reply any, err error)
	// Forward makes the wrapped call unchanged, reads its stream and sends its chunks.
	Forward() (reply any, err error)
	// Messages returns the messages of a list.
	Messages(list int) ([]abi.Message, error)
	// Get and Set access run-local values. Writes take effect if the hook succeeds.
	Get(key string) (string, error)
	Set(key, value string) error
	// Add adds 1 to a run-local counter and returns the sum. It takes effect immediately, even if
	// the hook fails.
	Add(key string) (int64, error)
	// Model calls the model, and Tool a tool, for the puppet itself.
	Model(text string) (*abi.Response, error)
	Tool(name, arguments string) (*abi.Result, error)
}

// An Input is the input of a hook.
type Input interface{ Envelope() *abi.Common }

// ErrBroken is the error with which [Play] reports a fault.
var ErrBroken = errors.New("the puppet breaks")

// A player runs the script of one hook call.
type player struct {
	host   Host
	hook   abi.Hook
	entry  string
	script Script
	common *abi.Common
	end    *abi.Error // the error of the wrapped call; nil if it succeeded
	about  string     // id of the hook's tool call; empty for other hooks
	idle   bool       // whether the hook is a late on_chunk hook, and no chunk contains LateSign
}

// Play runs a hook according to script s. in points to the hook's input and out to its answer. Play
// returns an *abi.Error if the hook fails, and ErrBroken if it must fault.
func Play(host Host, hook abi.Hook, s Script, in Input, out any) error {
	p := &player{host: host, hook: hook, entry: in.Envelope().Entry, script: s, common: in.Envelope()}
	if err := p.play(in, out); err != nil {
		return err
	}
	control, _ := out.(interface{ Ending() *abi.Control })
	switch {
	case p.idle:
	case s.Do == Fail:
		return &abi.Error{Code: abi.CodeInvalid, Message: p.mark(Fail)}
	case s.Do == Fault:
		return ErrBroken
	case s.Do == Stop && control != nil:
		control.Ending().Stop = &abi.Stop{Reason: p.mark(Stop)}
	case s.Do == Pause && control != nil && p.common.Resume == nil:
		control.Ending().Interrupt = &abi.Interrupt{Reason: p.mark(Pause)}
	}
	return nil
}

func (p *player) mark(what string) string { return Mark(what, p.entry, p.hook) }

// report emits the input of the hook as an event, and then makes the puppet's own call.
func (p *player) report(shown string) error {
	if p.script.Keep {
		n, err := p.host.Get("calls")
		if err != nil {
			return err
		}
		kept, _ := strconv.Atoi(n)
		if err := p.host.Set("calls", strconv.Itoa(kept+1)); err != nil {
			return err
		}
		shown += " | after " + strconv.Itoa(kept)
	}
	if err := p.host.Tell("shown", shown); err != nil {
		return err
	}
	return p.own()
}

// own makes the puppet's own call, if the script has one, and reports the outcome.
func (p *player) own() error {
	var said string
	var failed *abi.Error
	var err error
	switch p.script.Own {
	case OwnModel:
		var res *abi.Response
		if res, err = p.host.Model(p.mark(OwnModel)); err == nil || errors.As(err, &failed) {
			said, err = response(res, failed), nil
		}
	case OwnTool:
		var res *abi.Result
		if res, err = p.host.Tool("plain", OwnArguments(p.entry)); err == nil || errors.As(err, &failed) {
			said, err = result(res, failed), nil
		}
	}
	if err != nil || p.script.Own == "" {
		return err
	}
	if p.about != "" {
		said = p.about + " " + said
	}
	return p.host.Tell("own", said)
}

// messages returns the messages of a list. It reports them in an event whose text begins with the prefix
// before, and makes the puppet's own call, as report does.
func (p *player) messages(list int, before string) ([]abi.Message, error) {
	messages, err := p.host.Messages(list)
	if err != nil {
		return nil, err
	}
	return messages, p.report(before + Messages(messages))
}

// play calls the method for the type of in, the hook's input. It returns an error for a hook that
// puppets do not have.
func (p *player) play(in, out any) error {
	switch in := in.(type) {
	case *abi.BeforeAgentInput:
		return p.beforeAgent(in, out.(*abi.BeforeAgentAnswer))
	case *abi.BeforeModelRewriteStateInput:
		return p.rewriteState(in, out.(*abi.BeforeModelRewriteStateAnswer))
	case *abi.BeforeModelInput:
		return p.beforeModel(in, out.(*abi.BeforeModelAnswer))
	case *abi.WrapModelInput:
		return p.wrapModel(in, out.(*abi.WrapModelAnswer))
	case *abi.OnChunkInput:
		return p.onChunk(in, out.(*abi.OnChunkAnswer))
	case *abi.AfterModelInput:
		return p.afterModel(in, out.(*abi.AfterModelAnswer))
	case *abi.AfterAgentInput:
		return p.afterAgent(in, out.(*abi.AfterAgentAnswer))
	default:
		if patch, ok := statePatch(out); ok {
			return p.keep("", patch)
		}
		return p.playTool(in, out)
	}
}

// statePatch returns the state's patch in out, the answer of a hook, and whether such answers have
// one.
func statePatch(out any) (*abi.ListPatch, bool) {
	f := reflect.ValueOf(out).Elem().FieldByName("Messages")
	if !f.IsValid() {
		return nil, false
	}
	patch, ok := f.Addr().Interface().(*abi.ListPatch)
	return patch, ok
}

func (p *player) beforeAgent(in *abi.BeforeAgentInput, out *abi.BeforeAgentAnswer) error {
	direct := ""
	for _, name := range in.ReturnDirectly {
		direct += " " + name
	}
	if _, err := p.messages(abi.ListState, in.Instruction+" tools "+declared(in.Tools)+" direct"+direct+": "); err != nil {
		return err
	}
	switch p.script.Do {
	case Edit:
		text := in.Instruction + "+" + p.entry
		out.Instruction = &text
	case Insert:
		out.Messages = insertAt(0, p.mark(Insert))
	case Drop:
		out.Tools.Remove = []string{"plain"}
	case Add:
		out.Tools.Add = []abi.Tool{{Name: Tool(p.entry)}}
	case Direct:
		out.ReturnDirectly = []string{"pieces"}
	case Answer:
		m := abi.Assistant(p.mark(Answer))
		out.Respond = &m
	}
	return nil
}

func insertAt(at int, text string) abi.ListPatch {
	return abi.ListPatch{Splice: []abi.Splice{{At: at, Insert: []abi.Message{abi.User(text)}}}}
}

func (p *player) rewriteState(in *abi.BeforeModelRewriteStateInput, out *abi.BeforeModelRewriteStateAnswer) error {
	if p.script.Do == Fewer {
		out.Active = []string{"plain"}
	}
	return p.keep(active(in.Tools)+": ", &out.Messages)
}

// keep runs a hook that changes the state: it reports the messages, and then edits the last one or
// appends one according to the script.
func (p *player) keep(before string, out *abi.ListPatch) error {
	messages, err := p.messages(abi.ListState, before)
	if err != nil {
		return err
	}
	switch n := len(messages); {
	case p.script.Do == Insert:
		*out = insertAt(n, p.mark(Insert))
	case p.script.Do == Edit && n > 0:
		last := messages[n-1]
		last.Content = abi.Text(last.Content.String() + "+" + p.entry)
		out.Splice = []abi.Splice{{At: n - 1, Remove: 1, Insert: []abi.Message{last}}}
	}
	return nil
}

func (p *player) beforeModel(in *abi.BeforeModelInput, out *abi.BeforeModelAnswer) error {
	messages, err := p.messages(abi.ListRequest, declared(in.Request.Tools)+": ")
	if err != nil {
		return err
	}
	switch p.script.Do {
	case Insert:
		out.Request.Messages = insertAt(len(messages), p.mark(Insert))
	case Answer:
		out.Response = p.response()
	}
	return nil
}

func (p *player) response() *abi.Response {
	return &abi.Response{Message: abi.Assistant(p.mark(Answer)), FinishReason: abi.FinishStop}
}

func (p *player) wrapModel(in *abi.WrapModelInput, out *abi.WrapModelAnswer) error {
	messages, err := p.messages(abi.ListRequest, declared(in.Request.Tools)+": ")
	if err != nil {
		return err
	}
	var last *abi.Response
	for _, change := range p.script.Next {
		patch := &abi.RequestPatch{}
		if change != "" {
			patch.Messages = insertAt(len(messages), change)
		}
		reply, failed, err := p.next(change, patch)
		if err != nil {
			return err
		}
		res, _ := reply.(*abi.Response)
		if failed == nil {
			last = res
		}
		if err := p.host.Tell("reply", response(res, failed)); err != nil {
			return err
		}
	}
	switch {
	case p.script.Do == Edit && last != nil:
		res := *last
		res.Message.Content = abi.Text(res.Message.Content.String() + "+" + p.entry)
		out.Response = &res
	case p.script.Do == Edit, p.script.Do == Answer:
		out.Response = p.response()
	case p.read():
		out.Response = last
		return p.failed()
	}
	return nil
}

// read reports whether a wrapper only reads the stream and returns no answer.
func (p *player) read() bool {
	return p.script.Do == "" && slices.Equal(p.script.Next, []string{Read})
}

// failed returns the error of the wrapped call, which a wrapper passes on, or nil.
func (p *player) failed() error {
	if p.end == nil {
		return nil
	}
	return p.end
}

// next makes the wrapped call with patch or, if change is Read, reads its stream. failed is the
// call's error.
func (p *player) next(change string, patch any) (reply any, failed *abi.Error, err error) {
	if change == Read {
		reply, err = p.host.Forward()
	} else {
		reply, err = p.host.Next(patch)
	}
	if errors.As(err, &p.end) {
		return nil, p.end, nil
	}
	return reply, nil, err
}

// onChunk edits or drops the text of the chunks according to the script. It does not report its
// input, because the number of on_chunk calls depends on the stream.
func (p *player) onChunk(in *abi.OnChunkInput, out *abi.OnChunkAnswer) error {
	p.idle = p.script.Late &&
		!slices.ContainsFunc(in.Chunks, func(c abi.Chunk) bool { return says(c) && strings.Contains(c.Text, LateSign) })
	if p.script.Do != Edit && p.script.Do != Drop {
		return nil
	}
	out.Chunks = []abi.Chunk{}
	for _, c := range in.Chunks {
		switch {
		case says(c) && p.script.Do == Drop:
			continue
		case says(c):
			c.Text = Edited(p.entry, c.Text)
		}
		out.Chunks = append(out.Chunks, c)
	}
	return nil
}

func says(c abi.Chunk) bool { return c.Kind == abi.ChunkText || c.Kind == abi.ChunkToolResult }

func (p *player) afterModel(in *abi.AfterModelInput, out *abi.AfterModelAnswer) error {
	if err := p.report(in.Source + " " + response(in.Response, in.Error)); err != nil {
		return err
	}
	switch {
	case p.script.Do == Error:
		out.Error = &abi.Error{Code: abi.CodeInvalid, Message: p.mark(Error)}
	case p.script.Do == Again:
		n, err := p.host.Add("again." + in.Run.StepID)
		if err != nil || n > 1 {
			return err
		}
		messages, err := p.host.Messages(abi.ListRequest)
		if err != nil {
			return err
		}
		out.Again = &abi.ModelAgain{
			Request: abi.RequestPatch{Messages: insertAt(len(messages), p.mark(Again))},
			Reason:  "once",
		}
	case p.script.Do == Edit && in.Response != nil:
		res := *in.Response
		res.Message.Content = abi.Text(res.Message.Content.String() + "+" + p.entry)
		out.Response = &res
	case p.script.Do == Edit, p.script.Do == Answer:
		out.Response = p.response()
	}
	return nil
}

func (p *player) afterAgent(in *abi.AfterAgentInput, out *abi.AfterAgentAnswer) error {
	failed := ""
	if in.Error != nil {
		failed = " error " + in.Error.Message
	}
	if _, err := p.messages(abi.ListState, in.FinishReason+" "+Message(in.Final)+failed+": "); err != nil {
		return err
	}
	if p.script.Do == Edit && in.Final != nil {
		final := *in.Final
		final.Content = abi.Text(final.Content.String() + "+" + p.entry)
		out.Final = &final
	}
	return nil
}

// Command guest is a middleware for the tests of the WebAssembly transport.
package main

import (
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{Name: "guest", Version: "1.2.3"}, &guest{Phrase: "hello"})
}

func main() {}

var seen = middleware.Counter("seen")

type guest struct {
	Phrase string `json:"phrase" doc:"what to say"`

	ran bool // whether the background goroutine ran
}

// BeforeAgent fails, panics, reports whether the goroutine of an earlier call ran, or greets, as
// the instruction requests. With the instruction "begin", it also starts the goroutine.
func (g *guest) BeforeAgent(ctx *middleware.Context, run *middleware.AgentStart) error {
	switch run.Instruction {
	case "fail":
		return fmt.Errorf("asked to fail: %w", &abi.Error{Code: abi.CodeUnavailable, Message: "no luck", Retryable: true})
	case "panic":
		panic("asked to panic")
	case "begin":
		go func() { g.ran = true }()
	case "ran?":
		run.Instruction = fmt.Sprint(g.ran)
		return nil
	}
	run.Instruction = g.Phrase + ", " + run.Instruction
	return ctx.Emit("greeted", map[string]string{"with": g.Phrase})
}

// BeforeModelRewriteState counts the calls of this hook in the run, and appends a message with the
// phrase and the count. If the list has more than three messages, it first removes the last one.
func (g *guest) BeforeModelRewriteState(ctx *middleware.Context, state *middleware.State) error {
	n, err := seen.Add(ctx, 1)
	if err != nil {
		return err
	}
	last, _ := state.Messages.Last()
	ctx.Infof("call %d, last %q", n, last.Content)
	if state.Messages.Len() > 3 {
		state.Messages.Delete(state.Messages.Len()-1, state.Messages.Len())
	}
	state.Messages.Append(abi.User(fmt.Sprintf("%s %d", g.Phrase, n)))
	return nil
}

// WrapModel repeats a call that failed with [abi.CodeModel], without tools, and puts the phrase
// before the response's text.
func (g *guest) WrapModel(
	ctx *middleware.Context, req *middleware.Request, next middleware.NextModel,
) (*abi.Response, error) {
	response, err := next(req)
	if errors.Is(err, &abi.Error{Code: abi.CodeModel}) {
		req.Tools = nil
		response, err = next(req)
	}
	if err != nil {
		return nil, err
	}
	response.Message.Content = abi.Text(g.Phrase + ": " + response.Message.Content.String())
	return response, nil
}

// GateTool stops the run at the tool "explode" and allows the others.
func (g *guest) GateTool(ctx *middleware.Context, call *middleware.Call) (middleware.Decision, error) {
	if call.Name == "explode" {
		return middleware.Decision{}, ctx.Stop("no explosions", "safety")
	}
	return middleware.Allow(), nil
}

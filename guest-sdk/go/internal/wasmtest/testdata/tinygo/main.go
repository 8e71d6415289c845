// Command tinygo is a middleware for the tests of modules built by TinyGo.
package main

import (
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{Name: "tinygo", Version: "1.2.3"}, &guest{Phrase: "hello"})
}

func main() {}

var seen = middleware.Counter("seen")

type guest struct {
	Phrase string `json:"phrase" doc:"what to say"`

	hooks map[string]int // number of calls of each hook since Configure
}

func (g *guest) Configure(*middleware.Context) error {
	g.hooks = map[string]int{}
	return nil
}

// BeforeAgent fails, panics, reports the number of calls of each hook, or greets, as the
// instruction requests.
func (g *guest) BeforeAgent(ctx *middleware.Context, run *middleware.AgentStart) error {
	g.hooks["before_agent"]++
	switch run.Instruction {
	case "fail":
		return fmt.Errorf("asked to fail: %w", &abi.Error{Code: abi.CodeUnavailable, Message: "no luck", Retryable: true})
	case "panic":
		panic("asked to panic")
	case "count":
		run.Instruction = fmt.Sprint(g.hooks)
		return nil
	}
	run.Instruction = g.Phrase + ", " + run.Instruction
	return ctx.Emit("greeted", map[string]string{"with": g.Phrase})
}

// BeforeModelRewriteState replaces the last message with the phrase and the number of calls of this
// hook in the run.
func (g *guest) BeforeModelRewriteState(ctx *middleware.Context, state *middleware.State) error {
	g.hooks["before_model_rewrite_state"]++
	n, err := seen.Add(ctx, 1)
	if err != nil {
		return err
	}
	last, _ := state.Messages.Last()
	ctx.Infof("call %d, last %q", n, last.Content)
	state.Messages.Set(state.Messages.Len()-1, abi.User(fmt.Sprintf("%s %d", g.Phrase, n)))
	return nil
}

// GateTool stops the run at the tool "explode" and allows the others.
func (g *guest) GateTool(ctx *middleware.Context, call *middleware.Call) (middleware.Decision, error) {
	if call.Name == "explode" {
		return middleware.Decision{}, ctx.Stop("no explosions", "safety")
	}
	return middleware.Allow(), nil
}

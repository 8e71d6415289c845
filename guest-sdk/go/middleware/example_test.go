package middleware_test

import (
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// toolPolicy denies tools by name, and asks about every call after the first few.
type toolPolicy struct {
	Deny  []string `json:"deny" doc:"tools that are never called"`
	Limit int64    `json:"limit" doc:"calls before somebody is asked"`
}

var policyCalls = middleware.Counter("calls")

func (p *toolPolicy) Configure(*middleware.Context) error {
	if p.Limit < 1 {
		return fmt.Errorf("limit is %d; want at least 1", p.Limit)
	}
	return nil
}

func (p *toolPolicy) GateTool(ctx *middleware.Context, call *middleware.Call) (middleware.Decision, error) {
	for _, name := range p.Deny {
		if name == call.Name {
			return middleware.Deny(name + " is not allowed here"), nil
		}
	}
	n, err := policyCalls.Add(ctx, 1)
	if err != nil {
		return middleware.Decision{}, err
	}
	if n > p.Limit {
		return middleware.Ask(fmt.Sprintf("call %d of this run", n)).With(call.Call), nil
	}
	return middleware.Allow(), nil
}

// Example shows that a middleware is a type with hook methods, and that its exported fields are its
// configuration.
func Example() {
	// A module calls this in init:
	// middleware.Register(middleware.Options{Name: "tool-policy"}, &toolPolicy{Limit: 2})
	host := middlewaretest.New(middleware.Options{Name: "tool-policy"}, &toolPolicy{Limit: 2})

	fmt.Println(host.Configure(map[string]any{"deny": []string{"shell"}, "limits": 1}))
	fmt.Println(host.Configure(map[string]any{"deny": []string{"shell"}}))
	for _, name := range []string{"shell", "read", "read", "read"} {
		answer, err := host.GateTool(abi.GateToolInput{Call: abi.Call{Name: name, Arguments: "{}"}})
		fmt.Println(answer.Decision, answer.Message, err)
	}
	// Output:
	// config: unknown key limits; allowed: deny, limit
	// <nil>
	// deny shell is not allowed here <nil>
	// allow  <nil>
	// allow  <nil>
	// ask call 3 of this run <nil>
}

// ExampleMessages shows that only messages that are read are fetched, and that only changes are
// sent back.
func ExampleMessages() {
	host := middlewaretest.New(middleware.Options{}, middleware.WithBeforeModelRewriteState(
		func(_ *middleware.Context, state *middleware.State) error {
			last, _ := state.Messages.Last()
			if text := last.Content.String(); strings.Contains(text, "secret") {
				last.Content = abi.Text(strings.ReplaceAll(text, "secret", "******"))
				state.Messages.Set(state.Messages.Len()-1, last)
			}
			return nil
		}))
	host.SetMessages(abi.System("You help."), abi.User("Hello."), abi.Assistant("Hi."), abi.User("My secret is 7."))

	answer, err := host.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{})
	if err != nil {
		fmt.Println(err)
		return
	}
	patch, err := abijson.Marshal(answer.Messages)
	fmt.Println(string(patch), err)
	fmt.Println("pulled:", host.Pulled)
	// Output:
	// {"splice":[{"at":3,"remove":1,"insert":[{"id":"m4","role":"user","content":"My ****** is 7."}]}]} <nil>
	// pulled: 1
}

// ExampleWithModelWrapper shows a wrapper that calls next again. A wrapper can call next any number
// of times, or not at all.
func ExampleWithModelWrapper() {
	host := middlewaretest.New(middleware.Options{}, middleware.WithModelWrapper(
		func(ctx *middleware.Context, req *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
			response, err := next(req)
			if err == nil && response.FinishReason == abi.FinishLength {
				ctx.Infof("cut off; asking for a short answer")
				req.Messages.Append(abi.User("Answer in one sentence."))
				response, err = next(req)
			}
			return response, err
		}))
	host.SetMessages(abi.User("Tell me all."))
	host.Model = func(call middlewaretest.ModelCall) (*abi.Response, error) {
		if len(call.Messages) == 1 {
			return &abi.Response{Message: abi.Assistant("In the begin"), FinishReason: abi.FinishLength}, nil
		}
		return &abi.Response{Message: abi.Assistant("42."), FinishReason: abi.FinishStop}, nil
	}
	_, err := host.WrapModel(abi.WrapModelInput{Request: abi.Request{Model: "small"}})
	fmt.Println(host.Logs[0].Text, err)
	// Output: cut off; asking for a short answer <nil>
}

// ExampleNewTool makes a tool from a function. The type of the function's arguments describes the
// tool's parameters.
func ExampleNewTool() {
	type args struct {
		City string `json:"city" doc:"name of the city"`
	}
	weather := middleware.NewTool("weather", "Says what the weather is.",
		func(_ *middleware.Context, a args) (string, error) { return "It rains in " + a.City + ".", nil })

	host := middlewaretest.New(middleware.Options{}, middleware.WithTools(weather))
	fmt.Println(string(weather.Parameters))
	answer, err := host.CallTool(abi.CallToolInput{Call: abi.Call{Name: "weather", Arguments: `{"city":"Bergen"}`}})
	fmt.Println(answer.Result.Content, err)
	answer, err = host.CallTool(abi.CallToolInput{Call: abi.Call{Name: "weather", Arguments: `{"town":"Bergen"}`}})
	fmt.Println(answer.Result.Content, err)
	// Output:
	// {"type":"object","properties":{"city":{"type":"string","description":"name of the city"}},"required":["city"],"additionalProperties":false}
	// It rains in Bergen. <nil>
	// arguments of weather: unknown: town <nil>
}

// ExampleLocal shows that a local, which belongs to one run, persists when the module's memory is reset.
func ExampleLocal() {
	type visit struct {
		Tool  string `json:"tool"`
		Times int    `json:"times"`
	}
	visits := middleware.Local[[]visit]("visits")
	host := middlewaretest.New(middleware.Options{}, middleware.WithAfterTool(
		func(ctx *middleware.Context, call *middleware.ToolEnd) error {
			return visits.Update(ctx, func(old []visit) ([]visit, error) {
				for i := range old {
					if old[i].Tool == call.Name {
						old[i].Times++
						return old, nil
					}
				}
				return append(old, visit{call.Name, 1}), nil
			})
		}))
	for _, name := range []string{"read", "write", "read"} {
		if err := host.Wipe(); err != nil { // the host may do this at any time
			fmt.Println(err)
		}
		_, err := host.AfterTool(abi.AfterToolInput{Call: abi.Call{Name: name}, Result: abi.TextResult("ok")})
		if err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(string(host.Locals()["visits"]))
	// Output: [{"tool":"read","times":2},{"tool":"write","times":1}]
}

// ExampleAgentMiddleware shows a middleware in the older style of Eino.
func ExampleAgentMiddleware() {
	host := middlewaretest.New(middleware.Options{}, middleware.AgentMiddleware{
		AdditionalInstruction: "Be brief.",
		BeforeChatModel: func(_ *middleware.Context, state *middleware.State) error {
			state.Messages.Append(abi.User("Hurry."))
			return nil
		},
	})
	start, err := host.BeforeAgent(abi.BeforeAgentInput{Instruction: "You help."})
	fmt.Printf("%q %v\n", *start.Instruction, err)
	_, err = host.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{})
	fmt.Println(host.Messages()[0].Content, err)
	// Output:
	// "You help.\n\nBe brief." <nil>
	// Hurry. <nil>
}

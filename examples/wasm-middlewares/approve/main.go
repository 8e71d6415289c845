// Command approve is a middleware that has another model judge the risk of each tool call.
// It allows low risks, denies high ones, and asks a person about the rest. A call that
// could not be judged is denied or needs a person's approval.
package main

import (
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/callkey"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/names"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "approve",
		Version:     "1.0.0",
		Description: "Has a reviewer model score the risk of tool calls; asks a person where it is neither low nor high.",
		Requires:    []string{"model"},
	}, newApprove())
}

func main() {}

func newApprove() *approve {
	return &approve{
		AllowBelow:   30,
		DenyFrom:     80,
		OnFailure:    failDeny,
		Retries:      1,
		UserMessages: 5,
		MaxArguments: 16 << 10,
		MaxDenied:    10,
	}
}

// Decisions for a call that could not be judged.
const (
	failDeny = "deny"
	failAsk  = "ask"
)

type approve struct {
	Skip []string `json:"skip" doc:"names of tools whose calls are allowed without a review; * matches any characters"`
	Ask  []string `json:"ask" doc:"names of tools whose calls always need a person's approval; * matches any characters"`
	Deny []string `json:"deny" doc:"tools that are never called"`

	AllowBelow float64 `json:"allow_below" doc:"calls with a risk below this, 0 to 100, are allowed"`
	DenyFrom   float64 `json:"deny_from" doc:"calls with this risk or more are denied; between the two, a person is asked"`
	OnFailure  string  `json:"on_failure" doc:"what becomes of a call that the reviewer could not judge: deny or ask"`

	Models       []string       `json:"models" doc:"the reviewers, the next when one fails; without it the agent's model"`
	Params       map[string]any `json:"params" doc:"parameters of the reviewer's calls, for example temperature"`
	Retries      int            `json:"retries" doc:"how often each reviewer is asked once more when it fails, at most 5"`
	Rules        string         `json:"rules" doc:"additional rules for the reviewer"`
	UserMessages int            `json:"user_messages" doc:"how many of the user's last messages the reviewer is shown, at most 20"`
	MaxArguments int            `json:"max_arguments" doc:"arguments of more bytes than this cannot be judged"`
	MaxDenied    int            `json:"max_denied" doc:"the number of denied calls in a run after which all further calls that need a review are denied without one; 0: no limit"`
}

// Configure validates the configuration.
func (a *approve) Configure(*middleware.Context) error {
	for _, c := range []struct {
		isError bool
		reason  string
	}{
		{!(a.AllowBelow >= 0 && a.AllowBelow <= a.DenyFrom && a.DenyFrom <= 100), fmt.Sprintf("allow_below and deny_from: want 0 <= %v <= %v <= 100", a.AllowBelow, a.DenyFrom)},
		{
			a.OnFailure != failDeny && a.OnFailure != failAsk,
			fmt.Sprintf("on_failure: %q is not one of deny, ask", a.OnFailure),
		},
		{a.Retries < 0 || a.Retries > 5, fmt.Sprintf("retries: %d is not 0 to 5", a.Retries)},
		{a.UserMessages < 0 || a.UserMessages > 20, fmt.Sprintf("user_messages: %d is not 0 to 20", a.UserMessages)},
		{a.MaxArguments < 1 || a.MaxArguments > 1<<20, fmt.Sprintf("max_arguments: %d is not 1 to 1048576", a.MaxArguments)},
		{a.MaxDenied < 0, fmt.Sprintf("max_denied: %d is below 0", a.MaxDenied)},
	} {
		if c.isError {
			return &abi.Error{Code: abi.CodeInvalid, Message: "config: " + c.reason}
		}
	}
	if len(a.Models) == 0 {
		a.Models = []string{""}
	}
	return nil
}

var (
	// said holds the user's latest messages for the reviewer.
	said = middleware.Local[[]string]("said")
	// denied counts the calls that the reviewer denied.
	denied = middleware.Counter("denied")
)

// BeforeAgent stores the user's messages, because gates do not see the conversation. It
// omits the text of tools and of the model, which the author of an attack may control.
func (a *approve) BeforeAgent(ctx *middleware.Context, run *middleware.AgentStart) error {
	if a.UserMessages == 0 {
		return nil
	}
	var texts []string
	for _, m := range run.Messages.Backward() {
		if m.Role != abi.RoleUser || m.Origin != "" && m.Origin != abi.OriginUser {
			continue
		}
		if texts = append(texts, clip(m.Content.String(), maxSaid)); len(texts) == a.UserMessages {
			break
		}
	}
	return said.Set(ctx, texts)
}

// GateTool decides by the configured lists of tools or, for a tool in none of them, by the
// reviewer's verdict on the exact arguments that the tool would receive.
func (a *approve) GateTool(ctx *middleware.Context, call *middleware.Call) (middleware.Decision, error) {
	switch {
	case names.Match(a.Deny, call.Name):
		return middleware.Deny(fmt.Sprintf("%s is never to be called here.", call.Name)), nil
	case names.Match(a.Ask, call.Name):
		return middleware.Ask(fmt.Sprintf("May %s be called with these arguments?", call.Name)), nil
	case names.Match(a.Skip, call.Name):
		return middleware.Allow(), nil
	}
	v, err := a.verdict(ctx, call)
	if err != nil {
		return middleware.Decision{}, err
	}
	return a.decide(ctx, call, v)
}

// verdict returns the verdict that the run has stored for the same call or, if there is none, the
// reviewer's. It stores the reviewer's verdict unless it is a failure, so a denied call stays
// denied however often it is retried. After MaxDenied denials in the run, the result is always a
// failure, and the reviewer is not asked.
func (a *approve) verdict(ctx *middleware.Context, call *middleware.Call) (*verdict, error) {
	if a.MaxDenied > 0 {
		n, err := denied.Get(ctx)
		if err != nil {
			return nil, err
		}
		if n >= int64(a.MaxDenied) {
			return &verdict{
				Failed: fmt.Sprintf("%d calls were denied in this run, and no more are judged", n),
				Closed: true,
			}, nil
		}
	}
	key, err := callkey.Of(call.Tool.Owner+"/"+call.Name, call.Arguments)
	if err != nil {
		return &verdict{Failed: "its arguments cannot be read: " + err.Error()}, nil
	}
	stored := middleware.Local[*verdict]("verdict/" + digest(key))
	v, there, err := stored.Get(ctx)
	if err != nil || there {
		return v, err
	}
	v = a.review(ctx, call)
	if v.Failed == "" && v.Risk >= a.DenyFrom {
		if _, err := denied.Add(ctx, 1); err != nil {
			return nil, err
		}
	}
	if v.Failed == "" {
		err = stored.Set(ctx, v)
	}
	return v, err
}

// decide returns the decision that follows from a verdict, and emits an event about it.
func (a *approve) decide(ctx *middleware.Context, call *middleware.Call, v *verdict) (middleware.Decision, error) {
	decision, data := "", map[string]any{"call": call.ID, "tool": call.Name}
	var d middleware.Decision
	switch {
	case v.Failed != "" && a.OnFailure == failAsk && !v.Closed:
		decision = "ask"
		d = middleware.Ask(fmt.Sprintf("The call of %s could not be judged: %s. May it be made?", call.Name, v.Failed))
	case v.Failed != "":
		decision = "deny"
		d = middleware.Deny(fmt.Sprintf("The call of %s was not made: its risk could not be judged.", call.Name))
	case v.Risk < a.AllowBelow:
		decision, d = "allow", middleware.Allow()
	case v.Risk >= a.DenyFrom:
		decision = "deny"
		d = middleware.Deny(
			fmt.Sprintf(
				"The call of %s was not approved: %s. Do not try to reach the same in another way; tell the user what you wanted to do, and why.",
				call.Name,
				v.Reason,
			),
		)
	default:
		decision = "ask"
		d = middleware.Ask(fmt.Sprintf("May %s be called with these arguments? The reviewer says that the risk is %v of 100: %s.", call.Name, v.Risk, v.Reason)).
			With(map[string]any{"risk": v.Risk, "reason": v.Reason})
	}
	data["decision"] = decision
	if v.Failed != "" {
		data["failed"] = v.Failed
	} else {
		data["risk"], data["reason"] = v.Risk, v.Reason
	}
	return d, ctx.Emit("reviewed", data)
}

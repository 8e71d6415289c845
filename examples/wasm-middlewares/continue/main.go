// Command continue is a middleware that lets an agent answer only when checks pass: if the
// model answers too early, it receives the list of failed checks and continues.
package main

import (
	"regexp"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "continue",
		Version:     "1.0.0",
		Description: "Keeps an agent going until checks on its answer and its work hold.",
	}, newKeeper())
}

func main() {}

func newKeeper() *keeper {
	return &keeper{
		MaxTimes: 3, Then: thenAnswer,
		Prompt: "(Not from the user.) You are not done:\n{missing}\nGo on. Answer when this is done, with all that the user should read.",
	}
}

// Results of a run that reaches the maximum number of continuations.
const (
	thenAnswer = "answer"
	thenStop   = "stop"
)

// missing is the placeholder in the prompt for the failed checks.
const missing = "{missing}"

type keeper struct {
	Checks   []*check `json:"checks" doc:"what must hold before the model may answer"`
	Accept   []string `json:"accept" doc:"regular expressions (RE2): a matching answer is accepted unchecked, such as a question to the user"`
	MaxTimes int      `json:"max_times" doc:"how often the model is sent on in a run, 1 to 50"`
	Then     string   `json:"then" doc:"what happens after that: answer: the run ends with the unchanged answer; stop: the run is stopped"`
	Prompt   string   `json:"prompt" doc:"the message to the model; {missing} is replaced by the failed checks"`

	accept  []*regexp.Regexp
	watches bool // true if a check depends on calls
}

// sentOn counts the continuations of the run.
var sentOn = middleware.Local[int]("times")

// Configure validates the configuration.
func (k *keeper) Configure(*middleware.Context) error {
	switch {
	case len(k.Checks) == 0:
		return invalid("checks: want at least one, such as checks: [{must: '(?m)^Sources:'}]")
	case k.MaxTimes < 1 || k.MaxTimes > 50:
		return invalid("max_times: %d is not 1 to 50", k.MaxTimes)
	case k.Then != thenAnswer && k.Then != thenStop:
		return invalid("then: %q is not one of answer, stop", k.Then)
	case !strings.Contains(k.Prompt, missing):
		return invalid("prompt: must contain %s, which is replaced by the failed checks", missing)
	}
	k.watches = false
	for i, c := range k.Checks {
		if c == nil {
			return invalid("checks[%d]: want one of must, must_not, called, plan", i)
		}
		if err := c.prepare(); err != nil {
			return invalid("checks[%d]: %v", i, err)
		}
		k.watches = k.watches || c.Called != ""
	}
	k.accept = nil
	for i, pattern := range k.Accept {
		re, err := regexp.Compile(pattern)
		if err != nil || re.MatchString("") {
			return invalid("accept[%d]: want a regular expression that does not match the empty text: %v", i, err)
		}
		k.accept = append(k.accept, re)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeInvalid, Message: "config: " + middleware.Sprintf(format, args...)}
}

// AfterTool records the step of the call, if a check depends on calls.
func (k *keeper) AfterTool(ctx *middleware.Context, end *middleware.ToolEnd) error {
	if !k.watches {
		return nil
	}
	worked := end.Err == nil && end.Result != nil && !end.Result.IsError
	return calls.Update(ctx, func(all map[string]call) (map[string]call, error) {
		if all == nil {
			all = map[string]call{}
		}
		d := all[end.Name]
		if d.Called = ctx.Run.Step; worked {
			d.Worked = ctx.Run.Step
		}
		all[end.Name] = d
		return all, nil
	})
}

// AfterModelRewriteState continues the run if the model answers before the checks pass. After
// MaxTimes continuations, and in the last step, it gives up as Then specifies. It checks only the
// model's answers: an answer of another module, such as a refusal, is meant to end the run.
func (k *keeper) AfterModelRewriteState(ctx *middleware.Context, state *middleware.State) error {
	last, ok := state.Messages.Last()
	if !ok || last.Role != abi.RoleAssistant || len(last.ToolCalls) > 0 || last.Origin != abi.OriginModel {
		return nil
	}
	answer := last.Content.String()
	for _, re := range k.accept {
		if re.MatchString(answer) {
			return nil
		}
	}
	failed, texts, err := k.failed(ctx, answer)
	if err != nil || len(failed) == 0 {
		return err
	}
	times, _, err := sentOn.Get(ctx)
	if err != nil {
		return err
	}
	switch {
	case times >= k.MaxTimes:
		return k.giveUp(ctx, failed, times, "max_times")
	case ctx.Run.Step >= ctx.Run.MaxSteps: // one more step would lose the answer
		return k.giveUp(ctx, failed, times, "max_steps")
	}
	if err := sentOn.Set(ctx, times+1); err != nil {
		return err
	}
	state.Messages.Append(abi.User(strings.ReplaceAll(k.Prompt, missing, strings.Join(texts, "\n"))))
	return ctx.Emit("continued", reported{Failed: failed, Times: times + 1})
}

// reported is the data of an event: the failed checks, without the answer.
type reported struct {
	Failed  []string `json:"failed"`
	Times   int      `json:"times"`
	Because string   `json:"because,omitempty"`
}

// failed returns the names of the failed checks, and the messages to the model about them.
func (k *keeper) failed(ctx *middleware.Context, answer string) (failed, texts []string, err error) {
	for i, c := range k.Checks {
		text, err := c.missing(ctx, answer)
		if err != nil {
			return nil, nil, err
		}
		if text != "" {
			failed = append(failed, middleware.Sprintf("checks[%d].%s", i, c.kind))
			texts = append(texts, "- "+text)
		}
	}
	return failed, texts, nil
}

// giveUp emits an event for an answer that still fails checks after the given number of
// continuations. It stops the run if Then is thenStop. because is the limit that ended the
// continuations.
func (k *keeper) giveUp(ctx *middleware.Context, failed []string, times int, because string) error {
	if err := ctx.Emit("unfinished", reported{failed, times, because}); err != nil {
		return err
	}
	if k.Then == thenStop {
		return ctx.Stop(
			middleware.Sprintf("The model did not finish, sent on %d times: %s", times, strings.Join(failed, ", ")),
			"unfinished",
		)
	}
	return nil
}

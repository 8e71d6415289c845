// Command limits is a middleware that limits an agent's usage: model calls, tool calls,
// tokens and money, per run and per day.
package main

import (
	"math"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "limits",
		Version:     "1.0.0",
		Description: "Limits model calls, tool calls, tokens and money, by run and by day.",
	}, newLimits())
}

func main() {}

func newLimits() *limits { return &limits{OnLimit: onAnswer, OnToolLimit: onRefuse} }

// Actions when a limit is reached.
const (
	onAnswer = "answer" // one more model call, without tools
	onStop   = "stop"
	onError  = "error"
	onRefuse = "refuse" // the model gets an error result
)

type limits struct {
	Run         amounts          `json:"run" doc:"what one run may use"`
	Day         amounts          `json:"day" doc:"what all runs of a day (UTC) may use together; needs the grant store"`
	Prices      map[string]price `json:"prices" doc:"by the name of a model, * for any characters: what a million tokens cost"`
	OnLimit     string           `json:"on_limit" doc:"when model calls, tokens or money are used up: answer (one more model call, without tools), stop or error"`
	OnToolLimit string           `json:"on_tool_limit" doc:"the behavior when tool calls are used up: refuse (with a message to the model), answer (the next model call has no tools) or stop"`

	periods []*period
	models  []string // the patterns of Prices, longest first
}

// amounts holds the limits of a period. 0 means unlimited, except in Tools, where it allows no
// calls.
type amounts struct {
	ModelCalls int64            `json:"model_calls" doc:"how often the model may be called"`
	ToolCalls  int64            `json:"tool_calls" doc:"how often tools may be called, all together"`
	Tools      map[string]int64 `json:"tools" doc:"how often these tools may be called, by their names, * for any characters: all that match count together"`
	Tokens     int64            `json:"tokens" doc:"tokens of requests and answers"`
	Money      float64          `json:"money" doc:"in the currency of prices"`
}

// A price is the cost of a million tokens.
type price struct {
	Input  float64 `json:"input" doc:"of requests"`
	Output float64 `json:"output" doc:"of answers"`
}

// Configure validates the limits and prices.
func (l *limits) Configure(*middleware.Context) error {
	if !slices.Contains([]string{onAnswer, onStop, onError}, l.OnLimit) {
		return invalid("on_limit: %q is not one of answer, stop, error", l.OnLimit)
	}
	if !slices.Contains([]string{onRefuse, onAnswer, onStop}, l.OnToolLimit) {
		return invalid("on_tool_limit: %q is not one of refuse, answer, stop", l.OnToolLimit)
	}
	l.periods, l.models = nil, nil
	for _, p := range []*period{{name: "run", amounts: l.Run, book: runBook{}}, {name: "day", amounts: l.Day, book: dayBook{}}} {
		if err := p.check(len(l.Prices) > 0); err != nil {
			return err
		}
		if !p.empty() {
			l.periods = append(l.periods, p)
		}
	}
	if len(l.periods) == 0 {
		return invalid("there is no limit: set one in run or day")
	}
	for model, p := range l.Prices {
		if model == "" || !good(p.Input) || !good(p.Output) {
			return invalid(
				"prices.%s: want the name of a model, and prices for input and output from 0 to %d",
				model,
				int(maxMoney),
			)
		}
		l.models = append(l.models, model)
	}
	slices.SortFunc(l.models, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return slices.Compare([]byte(a), []byte(b))
	})
	return nil
}

// maxMoney bounds amounts of money and prices, so that sums cannot overflow.
const (
	maxMoney = 1_000_000
	maxName  = 128 // bytes of a tool's name in the ABI
)

func good(money float64) bool { return money >= 0 && money <= maxMoney && !math.IsNaN(money) }

// check validates the limits of the period. priced reports whether the configuration has prices.
func (p *period) check(priced bool) error {
	switch {
	case p.ModelCalls < 0 || p.ToolCalls < 0 || p.Tokens < 0 || !good(p.Money):
		return invalid("%s: limits are 0, for none, or above; money at most %d", p.name, int(maxMoney))
	case p.Money > 0 && !priced:
		return invalid("%s.money: needs prices, the cost of tokens", p.name)
	}
	for tool, n := range p.Tools {
		if tool == "" || len(tool) > maxName || n < 0 {
			return invalid(
				"%s.tools.%s: want the name of a tool, of at most %d bytes, and a number from 0",
				p.name,
				tool,
				maxName,
			)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeInvalid, Message: "config: " + middleware.Sprintf(format, args...)}
}

// A hit is a limit that is reached.
type hit struct {
	By   string `json:"by"` // "run" or "day"
	What string `json:"what"`
	Max  string `json:"max"`
}

func (h *hit) String() string {
	return middleware.Sprintf("The limit of %s %s for this %s is reached.", h.Max, h.What, h.By)
}

// end emits an event and returns the error that ends the run at the limit: a failure if how is
// onError, and a stop otherwise.
func (h *hit) end(ctx *middleware.Context, how string) error {
	if err := ctx.Emit("limit_reached", h); err != nil {
		return err
	}
	if how == onError {
		return &abi.Error{Code: abi.CodeLimit, Message: h.String()}
	}
	return ctx.Stop(h.String(), "limit")
}

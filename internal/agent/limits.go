package agent

import (
	"fmt"
	"maps"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/toolset"
)

// OnLimit is the reaction to a limit that a run reaches.
type OnLimit string

// Values of OnLimit.
const (
	// LimitError, the default, ends the run with a *ending.LimitError. Calls beyond the limit are
	// not made. If the tool calls of one message exceed the limit, none of them is executed.
	LimitError OnLimit = "error"
	// LimitEnd ends the run like LimitError, but without an error. The answer is the last message
	// of the model with text in this run, or nothing if there is none.
	LimitEnd OnLimit = "end"
	// LimitAnswer lets the model answer without tools. The last model call within the limit, or the
	// first one after a tool call beyond the limit, offers the model no tools and tells it to
	// answer now. If the model calls tools nevertheless, the calls get error results, like all tool
	// calls beyond the limit.
	LimitAnswer OnLimit = "answer"
	// LimitRefuse gives tool calls beyond a limit error results, and the run continues. It is valid
	// only for limits of tool calls.
	LimitRefuse OnLimit = "refuse"
)

// Limits are limits of the calls of a run, in addition to Options.MaxSteps, and of the size of its
// journal. A limit of 0 means no limit, except that JournalBytes has a default. A tool call counts
// even if a middleware answers it. Calls of sub-agents count too, and the sub-agent's own limits
// also apply to them. MaxSteps does not include the steps of sub-agents.
type Limits struct {
	// ModelCalls is the maximum number of calls that reach the model. There is usually one for each
	// step, one for each further call of next by a wrapper, one for each repetition by after_model,
	// and one for each model call of a module. Retries and fallbacks within one call do not count.
	ModelCalls int
	// ToolCalls is the maximum number of tool calls of the model and of modules. Tools has the
	// maximum for single tools of this agent, by name. A call does not count if its tool was not
	// offered or its arguments are invalid.
	ToolCalls int
	Tools     map[string]int
	// JournalBytes is the maximum number of bytes that the run writes to its journal. The default
	// is [journal.Options.MaxBytes], which JournalBytes cannot exceed. A run that exceeds the
	// maximum ends with a [*journal.FullError], whatever OnLimit is.
	JournalBytes int64

	OnLimit     OnLimit // for MaxSteps and ModelCalls: LimitError, LimitEnd or LimitAnswer; the default is LimitError
	OnToolLimit OnLimit // for ToolCalls and Tools: any OnLimit; the default is LimitError
}

// The names of a run's limits in events and errors.
const (
	LimitMaxSteps   = "max_steps"
	LimitModelCalls = "model_calls"
	LimitToolCalls  = "tool_calls"
)

// complete returns the limits with defaults set. It returns an error if they are invalid.
func (l Limits) complete() (Limits, error) {
	l.Tools = maps.Clone(l.Tools)
	if l.OnLimit == "" {
		l.OnLimit = LimitError
	}
	if l.OnToolLimit == "" {
		l.OnToolLimit = LimitError
	}
	switch {
	case l.ModelCalls < 0 || l.ToolCalls < 0:
		return l, fmt.Errorf("limits: %d model calls and %d tool calls; want numbers above 0, or 0 for no limit",
			l.ModelCalls, l.ToolCalls)
	case l.JournalBytes < 0:
		return l, fmt.Errorf("limits: %d journal bytes; want a number above 0, or 0 for the default", l.JournalBytes)
	case !slices.Contains([]OnLimit{LimitError, LimitEnd, LimitAnswer}, l.OnLimit):
		return l, fmt.Errorf("limits: what happens at the limit of model calls is %q; want error, end or answer", l.OnLimit)
	case !slices.Contains([]OnLimit{LimitError, LimitEnd, LimitAnswer, LimitRefuse}, l.OnToolLimit):
		return l, fmt.Errorf("limits: what happens at the limit of tool calls is %q; want error, end, answer or refuse",
			l.OnToolLimit)
	}
	for name, n := range l.Tools {
		if n < 1 {
			return l, fmt.Errorf("limits: %d calls of tool %q; want a number above 0, or remove the tool from the agent",
				n, name)
		}
	}
	return l, nil
}

// limits returns the run's limits of steps and calls: those that before_agent set or, if it set
// none, those of the first agent.
func (r *run) limits() abi.RunLimits {
	if l := r.state.Limits; l != nil {
		return *l
	}
	a := r.root
	return abi.RunLimits{
		MaxSteps:   a.MaxSteps,
		ModelCalls: a.Limits.ModelCalls,
		ToolCalls:  a.Limits.ToolCalls,
		Tools:      a.Limits.Tools,
	}
}

// limitText describes a limit with words that can follow "the run has used up".
func limitText(l *ending.LimitError) string {
	switch {
	case l.Limit == LimitMaxSteps:
		return fmt.Sprintf("its limit of %s", count(l.Value, "step"))
	case l.Limit == LimitModelCalls:
		return fmt.Sprintf("its limit of %s", count(l.Value, "model call"))
	case l.Tool != "":
		return fmt.Sprintf("its limit of %s of %s", count(l.Value, "call"), l.Tool)
	default:
		return fmt.Sprintf("its limit of %s", count(l.Value, "tool call"))
	}
}

// count returns n and the noun what, which is in the plural unless n is 1: "1 step", "2 steps".
func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// emitLimit emits the event of a reached limit, with the action taken.
func (r *run) emitLimit(l *ending.LimitError, action string) {
	r.emit(abi.Event{Type: abi.EventLimit, Limit: l.Limit, Value: l.Value, Name: l.Tool, Action: action})
}

// Actions in limit events.
const (
	actionEnded   = "run_ended"
	actionRefused = "refused"
	actionLast    = "last_call"
)

// mayStep returns an error, which ends the run, if the limits allow no further step. With
// LimitAnswer, it marks the last allowed step by setting LastLimit. That step offers the model no
// tools.
func (r *run) mayStep() error {
	s, l, on := &r.state, r.limits(), r.root.Limits.OnLimit
	for _, limit := range []struct {
		name        string
		limit, used int
	}{{LimitMaxSteps, l.MaxSteps, s.Step}, {LimitModelCalls, l.ModelCalls, r.modelCalls()}} {
		switch left := limit.limit - limit.used; {
		case limit.limit == 0:
		case left <= 0:
			return &ending.LimitError{Limit: limit.name, Value: int64(limit.limit)}
		case left == 1 && on == LimitAnswer && s.LastLimit == nil:
			s.LastLimit = &ending.LimitError{Limit: limit.name, Value: int64(limit.limit)}
		}
	}
	return nil
}

func (r *run) modelCalls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.ModelCalls
}

// countModelCall counts a model call before it is made, in this run and in the runs that enclose
// it. If a limit of one of them rejects the call, none of them counts it, and the error is an
// [*ending.LimitError].
func (r *run) countModelCall() error {
	r.mu.Lock()
	limit := r.limits().ModelCalls
	r.mu.Unlock()
	return r.addModelCall(limit)
}

// addModelCall is like countModelCall, but compares this run's number of calls with limit instead
// of the run's own limit. If the run has no limit, it rejects no call.
func (r *run) addModelCall(limit int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.limits().ModelCalls; l > 0 && r.state.ModelCalls >= limit {
		return &ending.LimitError{Limit: LimitModelCalls, Value: int64(l)}
	}
	if outer := r.parent; outer != nil {
		if err := outer.addInnerModelCall(); err != nil {
			return err
		}
	}
	r.state.ModelCalls++
	return nil
}

// addInnerModelCall counts a model call of a run that this run encloses.
func (r *run) addInnerModelCall() error {
	r.mu.Lock()
	limit := r.limits().ModelCalls
	r.mu.Unlock()
	if r.root.Limits.OnLimit == LimitAnswer {
		limit-- // the last call is for this run's own answer
	}
	return r.addModelCall(limit)
}

// lastCall returns the message that tells the model to answer without tools.
func lastCall(l *ending.LimitError) abi.Message {
	m := abi.User(
		fmt.Sprintf("The run has used up %s. Answer now, with what you have: no more tools can be called.", limitText(l)),
	)
	m.Origin = abi.OriginHost
	return m
}

// allot counts the calls of a round in order, and marks the calls that exceed a limit. If LastLimit
// is set, it marks all calls and counts none. If OnToolLimit ends the run, allot returns the first
// exceeded limit as an error, before any of the calls is executed. Otherwise it emits a limit event
// for each exceeded limit.
func (r *run) allot(calls []runlog.CallState) error {
	s, on := &r.state, r.root.Limits.OnToolLimit
	if s.LastLimit != nil {
		s.CalledPastLimit = true
		for i := range calls {
			calls[i].OverLimit = s.LastLimit
		}
		return nil
	}
	var beyond []*ending.LimitError
	for i := range calls {
		c := &calls[i]
		if !r.reachesTool(&c.Call) {
			continue
		}
		if c.OverLimit = r.countToolCall(c.Call.Name); c.OverLimit != nil &&
			!slices.ContainsFunc(beyond, func(l *ending.LimitError) bool { return *l == *c.OverLimit }) {
			beyond = append(beyond, c.OverLimit)
		}
	}
	if len(beyond) > 0 && (on == LimitError || on == LimitEnd) {
		return beyond[0]
	}
	for _, l := range beyond {
		if on == LimitAnswer && s.LastLimit == nil {
			s.LastLimit = l
		}
		r.emitLimit(l, actionRefused)
	}
	return nil
}

// reachesTool reports whether a call of the model names an offered tool and has valid
// arguments.
func (r *run) reachesTool(c *abi.Call) bool {
	_, ok := runlog.ToolOf(&r.state, c.Name)
	_, err := toolset.ParseArguments(c.Arguments)
	return ok && err == nil && slices.Contains(r.state.Offered, c.Name)
}

// CountTool implements [chain.Nester]. A module's tool call counts like a tool call of the model.
// If it exceeds a limit, the error is an [*ending.LimitError] if OnToolLimit ends the run.
// Otherwise it is an [*abi.Error] with the code [abi.CodeLimit], which rejects the call.
func (r *run) CountTool(name string) error {
	l := r.countToolCall(name)
	switch on := r.root.Limits.OnToolLimit; {
	case l == nil:
		return nil
	case on == LimitError || on == LimitEnd:
		return l
	}
	r.emitLimit(l, actionRefused)
	return &abi.Error{
		Code:    abi.CodeLimit,
		Message: fmt.Sprintf("tool: the call of %s was not run: the run has used up %s", name, limitText(l)),
	}
}

// countToolCall counts a tool call in this run and in the runs that enclose it. If limits of some
// of them reject the call, none of them counts it, and countToolCall returns the limit of the
// innermost run. Otherwise it returns nil.
func (r *run) countToolCall(name string) *ending.LimitError {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.toolLimit(name); l != nil {
		return l
	}
	if outer := r.parent; outer != nil {
		// The prefix prevents the call from counting as a call of the outer run's own tool.
		if l := outer.countToolCall(r.agent.Name + "/" + name); l != nil {
			return l
		}
	}
	used := r.state.ToolCalls
	if r.state.ToolCalls = maps.Clone(used); used == nil { // copy the map, because copies of the state share it
		r.state.ToolCalls = map[string]int{}
	}
	r.state.ToolCalls[name]++
	return nil
}

// toolLimit returns the limit of this run that another call of the tool called name would exceed,
// or nil. Callers hold mu.
func (r *run) toolLimit(name string) *ending.LimitError {
	l, used := r.limits(), r.state.ToolCalls
	if limit := l.Tools[name]; limit > 0 && used[name] >= limit {
		return &ending.LimitError{Limit: LimitToolCalls, Tool: name, Value: int64(limit)}
	}
	all := 0
	for _, n := range used {
		all += n
	}
	if l.ToolCalls > 0 && all >= l.ToolCalls {
		return &ending.LimitError{Limit: LimitToolCalls, Value: int64(l.ToolCalls)}
	}
	return nil
}

// beyond returns an error result that tells the model that a call of the tool called name exceeded
// limit l.
func beyond(l *ending.LimitError, name string) *abi.Result {
	return abi.ErrorResult(
		fmt.Sprintf("The call of %s was not run: the run has used up %s. Go on without it.", name, limitText(l)),
	)
}

// onLimit returns the OnLimit or OnToolLimit that applies to limit l.
func (r *run) onLimit(l *ending.LimitError) OnLimit {
	if l.Limit == LimitToolCalls {
		return r.root.Limits.OnToolLimit
	}
	return r.root.Limits.OnLimit
}

// atLimit returns the answer of a run that ends at limit l. It returns nil if the setting that applies to l is
// LimitError, or if the model has written no text.
func (r *run) atLimit(l *ending.LimitError) *abi.Message {
	if r.onLimit(l) == LimitError {
		return nil
	}
	return r.partialAnswer()
}

// partialAnswer returns the model's last message with text in this run, without its tool calls, or
// nil if there is none.
func (r *run) partialAnswer() *abi.Message {
	for i := r.state.Messages.Len() - 1; i >= r.newFrom(); i-- {
		m := r.state.Messages.At(i)
		if m.Role == abi.RoleAssistant && m.Content.String() != "" {
			m.ToolCalls = nil
			return &m
		}
	}
	return nil
}

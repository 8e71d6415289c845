package composition

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/composition/puppet"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A Check compares runs of a composition with the composition's prediction. Run returns a
// description of the differences, or "" if there are none. Run is deterministic.
type Check struct {
	Name string
	// Each is the distance between two seeds for which the check runs. Expensive checks run for
	// fewer seeds.
	Each int
	Run  func(context.Context, *Composition) string
}

// Checks returns the checks that run puppets as Go code in this process.
func Checks() []Check {
	return []Check{
		{"prediction", 1, whole},
		{"side by side", 2, sideBySide},
		{"stream", 1, streamed},
		{"deaths", 10, crashes},
		{"translation", 2, translation},
	}
}

// whole compares a run without streaming with the prediction, including all inputs of the entries'
// hooks, and returns the differences.
func whole(ctx context.Context, c *Composition) string {
	return againstPrediction(ctx, c.quiet(), &stage{})
}

// quiet returns a copy of the composition in which no agent streams.
func (c *Composition) quiet() *Composition {
	quiet := *c
	if quiet.Stream = false; c.Kid != nil {
		quiet.Kid = c.Kid.quiet()
	}
	if c.Peer != nil {
		quiet.Peer = c.Peer.quiet()
	}
	return &quiet
}

// sideBySide compares a run with concurrent tool calls with the prediction and returns the
// differences.
func sideBySide(ctx context.Context, c *Composition) string {
	c = c.with(func(_ abi.Hook, s puppet.Script) puppet.Script {
		s.Keep = false // the count would depend on the order of concurrent calls
		return s
	})
	if c = c.quiet(); c.Kid != nil || c.owns() {
		c.Limits = Limits{} // the order of concurrent calls determines which of them exceeds a limit
	}
	return againstPrediction(ctx, c, &stage{parallel: 3})
}

// streamed compares a run with streamed answers with the prediction and returns the differences.
// Streaming must not change the account. The check removes actions of hooks that run only after a
// stream was delivered, and skips compositions for which cutsOff returns true.
func streamed(ctx context.Context, c *Composition) string {
	if slices.ContainsFunc(c.agents(), (*Composition).cutsOff) {
		return ""
	}
	twice := false
	for h, s := range c.scripts {
		twice = twice || h == contract.HookWrapModel && len(s.Next) > 1
	}
	pauses := c.some(puppet.Pause, puppet.Ask)
	c = c.with(func(h abi.Hook, s puppet.Script) puppet.Script {
		delivered := h == contract.HookAfterModel || h == contract.HookWrapModel && (s.Next != nil || twice) ||
			h == contract.HookBeforeModel && twice
		if delivered && (s.Do == puppet.Pause || s.Do == puppet.Again) {
			s.Do = ""
		}
		if delivered && pauses {
			s.Own = "" // within an own call no hook could pause the run
		}
		return s
	})
	for _, a := range c.agents() {
		a.Stream = true
	}
	return againstPrediction(ctx, c, &stage{})
}

// cutsOff reports whether an on_chunk hook may end a stream while hooks of inner entries are in
// progress. Without streaming, those hooks finish first, so the two runs differ.
func (c *Composition) cutsOff() bool {
	for _, e := range c.Entries {
		s := e.Hooks[contract.HookOnChunk]
		if s.Do != puppet.Fail && s.Do != puppet.Stop && (s.Do != puppet.Fault || e.Skip) {
			continue
		}
		for _, inside := range c.Entries {
			for h := range inside.Hooks {
				wraps, after := h == contract.HookWrapModel ||
					h == contract.HookWrapToolCall, h == contract.HookAfterModel ||
					h == contract.HookAfterTool
				if wraps && inside.Ring >= e.Ring || (after || h == contract.HookOnChunk) && inside.Ring > e.Ring {
					return true
				}
			}
		}
	}
	return false
}

// crashes runs a composition in a series of simulated processes that die, and compares the
// journaled run with the prediction. The run must not depend on the times of the deaths. crashes
// returns the differences.
func crashes(ctx context.Context, c *Composition) string {
	c = c.with(func(h abi.Hook, s puppet.Script) puppet.Script {
		s.Keep = s.Keep && s.Next == nil && h != contract.HookWrapModel &&
			h != contract.HookWrapToolCall // a process that resumes a run calls wrappers again
		return s
	})
	c = c.quiet()
	want := Predict(c)
	if want.Open {
		return ""
	}
	want.withoutFaults()
	for _, at := range []int{2, 3, 5, 11} {
		s, err := playCrashing(ctx, c, at)
		switch {
		case err != nil:
			return err.Error()
		case s.switchedOff():
			continue
		}
		got := s.account()
		got.withoutFaults()
		wrong := s.inOrder() + differs(
			"events",
			want.Events,
			got.Events,
		) + differs(
			"messages at the end",
			[]string{want.State},
			[]string{got.State},
		)
		if wrong != "" {
			return fmt.Sprintf("with a death every %d hooks: %s", at, wrong)
		}
	}
	return ""
}

// breaks reports whether the composition has an on_chunk hook that faults.
func (c *Composition) breaks() bool {
	for h, s := range c.scripts {
		if h == contract.HookOnChunk && s.Do == puppet.Fault {
			return true
		}
	}
	return false
}

// againstPrediction runs a composition as on configures it, and returns the differences from the
// prediction. It returns "" if the prediction does not apply to the run.
func againstPrediction(ctx context.Context, c *Composition, on *stage) string {
	s, err := play(ctx, c, on)
	switch {
	case err != nil:
		return err.Error()
	case s.switchedOff(), Predict(c).Open:
		return ""
	}
	s.breaks = c.Stream && c.breaks() // the contract leaves the fault's position in the stream open
	want := Predict(c)
	wrong := s.against(want)
	if !c.some(puppet.Stop, puppet.Fault) { // otherwise the end of the run may prevent other calls from asking
		wrong += differs("it waited for", want.Paused, s.account().Paused)
	}
	return wrong
}

// against returns the differences between the observed run and the prediction.
func (s *seen) against(want *Account) string {
	got := s.account()
	if s.pauses > 0 || s.breaks {
		want.withoutLive()
		got.withoutLive()
	}
	return s.inOrder() + s.matchesObserver() + s.matchesStream() + got.differsFrom(want)
}

// inOrder describes the first event that is out of order or lacks its counterpart. It returns "" if
// there is none.
func (s *seen) inOrder() string {
	open, inner := map[string]bool{}, map[string]int64{}
	for i, e := range s.events {
		if e.Seq != int64(i+1) {
			return fmt.Sprintf("event %d has the number %d\n", i+1, e.Seq)
		}
		if in := e.Event; in != nil {
			if in.Seq <= inner[in.Run] {
				return fmt.Sprintf("event %d of run %s comes behind its event %d\n", in.Seq, in.Run, inner[in.Run])
			}
			inner[in.Run] = in.Seq
		}
		key, ends := "", false
		switch e.Type {
		case abi.EventStepStarted, abi.EventStepFinished:
			key, ends = e.StepID, e.Type == abi.EventStepFinished
		case abi.EventToolCall, abi.EventToolResult:
			key, ends = "call "+e.Call.ID, e.Type == abi.EventToolResult
		case abi.EventRunStarted, abi.EventRunFinished:
			key, ends = "run", e.Type == abi.EventRunFinished
		default:
			continue
		}
		if open[key] != ends {
			return fmt.Sprintf("event %d, %s, of %s: it has ended, or has not begun\n", e.Seq, e.Type, key)
		}
		open[key] = !ends
		if ends {
			delete(open, key)
		}
	}
	if last := s.events[len(s.events)-1].Type; len(open) > 0 || last != abi.EventRunFinished {
		return fmt.Sprintf("the last event is %s, and these have not ended: %v\n", last, open)
	}
	return ""
}

// matchesObserver compares the events with those that an observer received. An observer receives
// all events except chunks and events of child runs. matchesObserver returns the difference, or "".
func (s *seen) matchesObserver() string {
	var want []int64
	for _, e := range s.events {
		if e.Type != abi.EventChunk && e.Type != abi.EventChild {
			want = append(want, e.Seq)
		}
	}
	if !slices.Equal(want, s.observed) {
		return fmt.Sprintf("the observer was told of the events %v, of %v\n", s.observed, want)
	}
	return ""
}

// matchesStream compares each message with the text chunks that the caller received before the
// message. A message with Replaced set may differ. matchesStream returns the first difference, or
// "".
func (s *seen) matchesStream() string {
	text := ""
	for _, e := range s.events {
		switch {
		case e.Type == abi.EventChunk && e.Chunk.Kind == abi.ChunkText:
			text += e.Chunk.Text
		case e.Type == abi.EventMessage:
			if m := e.Message.Content.String(); text != "" && text != m && !e.Replaced {
				return fmt.Sprintf("the message is %q, its pieces said %q, and it does not say that it is replaced\n", m, text)
			}
			text = ""
		}
	}
	return ""
}

// differsFrom returns the differences between a and the expected account want.
func (a *Account) differsFrom(want *Account) string {
	return differs("events", want.Events, a.Events) + differs("the model was asked", want.Asked, a.Asked) +
		differs("tools ran", want.Ran, a.Ran) +
		differs(
			"the kid asked and ran",
			want.Kids,
			a.Kids,
		) + differs("messages at the end", []string{want.State}, []string{a.State})
}

// differs describes the first difference between two lists of lines. It returns "" if they are
// equal.
func differs(what string, want, got []string) string {
	if slices.Equal(want, got) {
		return ""
	}
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	at := func(list []string) string {
		if i < len(list) {
			return strings.Join(list[i:min(len(list), i+3)], "\n      ")
		}
		return "nothing more"
	}
	return fmt.Sprintf("%s: %s\nwant: %s\ngot:  %s\n", what, strings.Join(got[:i], "\n      "), at(want), at(got))
}

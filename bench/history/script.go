package main

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/stats"
	"github.com/agent-runner/agent-runner/host/model"
)

// A script is a model that answers at once and records the time of each request. It calls a tool in
// each step but the last.
type script struct {
	steps int
	asked []stats.Moment
}

// Generate implements [model.Model].
func (s *script) Generate(_ context.Context, _ *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	s.asked = append(s.asked, stats.Now())
	m, finish := abi.Assistant("done"), abi.FinishStop
	if n := len(s.asked); n < s.steps {
		m = abi.Message{
			Role:      abi.RoleAssistant,
			ToolCalls: []abi.ToolCall{abi.NewToolCall(fmt.Sprintf("call_%d", n), "echo", "{}")},
		}
		finish = abi.FinishToolCalls
	}
	for _, c := range m.Chunks() {
		if err := sink(c); err != nil {
			return nil, err
		}
	}
	return &abi.Response{Message: m, FinishReason: finish}, nil
}

// run reads all events of a run. It returns the time of the first step, up to the request to the
// model, and the average time of a later step.
func (s *script) run(start func() iter.Seq2[abi.Event, error]) (first, later stats.Span, err error) {
	s.asked = s.asked[:0]
	began := stats.Now()
	for _, err := range start() {
		if err != nil {
			return first, later, err
		}
	}
	if len(s.asked) != s.steps {
		return first, later, errors.New("the run did not have all its steps")
	}
	return s.asked[0].Since(began, 1), s.asked[s.steps-1].Since(s.asked[0], s.steps-1), nil
}

// medians calls [script.run] the given number of times, after one call that warms up, and returns
// the medians of its two results.
func (s *script) medians(runs int, start func() iter.Seq2[abi.Event, error]) (first, later stats.Span, err error) {
	var firstSpans, laterSpans []stats.Span
	for i := range runs + 1 {
		first, later, err := s.run(start)
		if err != nil {
			return first, later, err
		}
		if i > 0 {
			firstSpans, laterSpans = append(firstSpans, first), append(laterSpans, later)
		}
	}
	return stats.MedianSpan(firstSpans), stats.MedianSpan(laterSpans), nil
}

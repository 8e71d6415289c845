package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/stats"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/chain"
	"github.com/agent-runner/agent-runner/host/tool"
)

// eventsOfStep is how many events the middleware of [events] makes in a step.
const eventsOfStep = 200

// events measures an event of a run that has had so many before it, from the
// middleware that makes it to who reads the run.
func events(ctx context.Context, h *host.Host, _ *host.Module) error {
	before := []int{10, 1000, 20_000}
	var told [3][]stats.Span
	for run := range 6 {
		us, err := eventful(ctx, h, before)
		if err != nil {
			return err
		}
		for i := range before {
			if run > 0 { // the first warms up
				told[i] = append(told[i], us[i])
			}
		}
	}
	fmt.Println("| events before | us an event | of these the processors | against 10 events |\n|---|---|---|---|")
	for i, n := range before {
		us := stats.MedianSpan(told[i])
		fmt.Printf("| %d | %.2f | %.2f | %.2f |\n", n, us.Wall, us.Used, us.Used/stats.MedianSpan(told[0]).Used)
	}
	return nil
}

// eventful is a run whose middleware makes events in each step. It returns what one
// took in the steps behind so many.
func eventful(ctx context.Context, h *host.Host, before []int) (us [3]stats.Span, err error) {
	const behind = 5 // steps that are looked at, with their tool
	m := &script{steps: before[len(before)-1]/eventsOfStep + behind + 2}
	emit := &host.Native{BeforeModel: func(_ context.Context, c *chain.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
		for range eventsOfStep {
			if err := c.Emit("seen", abi.JSON(`{"what":"an event of some fifty bytes, as they are"}`)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}}
	a, err := h.NewAgent(ctx, &host.AgentOptions{Model: m, Tools: []tool.Tool{echo()}, MaxSteps: m.steps, Middlewares: []host.Middleware{{Name: "emit", Native: emit}}})
	if err != nil {
		return us, err
	}
	defer a.Close()
	var ends []stats.Moment // of the middleware's events of each step
	custom := 0
	for e, err := range a.Run(ctx, host.Input{Messages: []abi.Message{abi.User("go")}}) {
		if err != nil {
			return us, err
		}
		if e.Type != abi.EventCustom {
			continue
		}
		if custom++; custom%eventsOfStep == 0 {
			now, err := stats.Now()
			if err != nil {
				return us, err
			}
			ends = append(ends, now)
		}
	}
	if len(ends) != m.steps {
		return us, errors.New("the run lost events")
	}
	for i, n := range before {
		step := n / eventsOfStep
		us[i] = ends[step+behind].Since(ends[step], behind*eventsOfStep)
	}
	return us, nil
}

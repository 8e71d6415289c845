package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/stats"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/host/store"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
)

// eventsOfStep is the number of events that the middleware of [events] emits in a step.
const eventsOfStep = 200

// before holds the numbers of events that precede a measured event.
var before = [3]int{10, 1000, 20_000}

// events measures how long an event takes from the middleware that emits it to the reader of the
// run. It measures after each number of events that the variable before lists: in a run without a
// journal, in a run with one, and for a reader that resumes a journaled run after that number of
// events.
func events(ctx context.Context, h *host.Host, _ *host.Module) error {
	return withStore(ctx, func(s store.Store) error {
		var told, kept, again [len(before)][]stats.Span
		for run := range 5 {
			a, _, err := eventful(ctx, h, nil)
			if err != nil {
				return err
			}
			b, id, err := eventful(ctx, h, s)
			if err != nil {
				return err
			}
			for i, n := range before {
				c, err := resumed(ctx, s, id, n)
				if err != nil {
					return err
				}
				if run > 0 { // the first warms up
					told[i], kept[i], again[i] = append(told[i], a[i]), append(kept[i], b[i]), append(again[i], c)
				}
			}
		}
		fmt.Println("| | events before | us an event | of these the processors | against 10 events |\n|---|---|---|---|---|")
		for _, row := range []struct {
			name string
			of   [len(before)][]stats.Span
		}{{"told", told}, {"kept in SQLite, and told", kept}, {"read from SQLite, by who resumes", again}} {
			for i, n := range before {
				us := stats.MedianSpan(row.of[i])
				fmt.Printf(
					"| %s | %d | %.2f | %.2f | %.2f |\n",
					row.name,
					n,
					us.Wall,
					us.Used,
					us.Used/stats.MedianSpan(row.of[0]).Used,
				)
			}
		}
		return nil
	})
}

// eventful runs an agent whose middleware emits events in each step, with a journal if s is not
// nil. It returns the time per event after each number of events that the variable before lists,
// and the ID of the run.
func eventful(ctx context.Context, h *host.Host, s store.Store) (us [len(before)]stats.Span, run string, err error) {
	const behind = 10 // number of measured steps, including their tool calls
	m := &script{steps: before[len(before)-1]/eventsOfStep + behind + 2}
	emit := &native.Middleware{
		BeforeModel: func(_ context.Context, c *hook.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			for range eventsOfStep {
				if err := c.Emit("seen", abi.JSON(`{"what":"an event of some fifty bytes, as they are"}`)); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
	}
	o := &host.AgentOptions{
		Model:       m,
		Tools:       []tool.Tool{echo()},
		MaxSteps:    m.steps,
		Middlewares: []host.Middleware{{Name: "emit", Native: emit}},
	}
	if s != nil {
		o.Journal = &journal.Options{Journal: s}
	}
	a, err := h.NewAgent(ctx, o)
	if err != nil {
		return us, "", err
	}
	defer a.Close()
	var ends []stats.Moment // end of the middleware's events in each step
	custom := 0
	for e, err := range a.Run(ctx, host.Input{Messages: []abi.Message{abi.User("go")}}) {
		if err != nil {
			return us, "", err
		}
		run = e.Run
		if e.Type != abi.EventCustom {
			continue
		}
		if custom++; custom%eventsOfStep == 0 {
			ends = append(ends, stats.Now())
		}
	}
	if len(ends) != m.steps {
		return us, "", errors.New("the run lost events")
	}
	for i, n := range before {
		step := n / eventsOfStep
		us[i] = ends[step+behind].Since(ends[step], behind*eventsOfStep)
	}
	return us, run, nil
}

// resumed returns the time per event for a reader that resumes after n events and reads the next
// 100.
func resumed(ctx context.Context, s store.Store, run string, n int) (stats.Span, error) {
	const readers, some = 50, 100
	got := 0
	began := stats.Now()
	for range readers {
		list, err := s.Events(ctx, run, int64(n), some)
		if err != nil {
			return stats.Span{}, err
		}
		if len(list) < some || list[0].Seq != int64(n)+1 {
			return stats.Span{}, fmt.Errorf("behind event %d there were %d", n, len(list))
		}
		got += len(list)
	}
	return stats.Now().Since(began, got), nil
}

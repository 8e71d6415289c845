package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/stats"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// chunks measures how long a chunk takes from the model to the reader of the run. The modules
// between them search each chunk for addresses in their on_chunk hooks.
func chunks(ctx context.Context, h *host.Host, m *host.Module) error {
	fmt.Println(
		"| modules | chunks of the stream | us a chunk | of these the processors | against 100 chunks |\n|---|---|---|---|---|",
	)
	for _, modules := range []int{0, 1, 5} {
		var list []host.Middleware
		for i := range modules {
			list = append(
				list,
				host.Middleware{
					Name:   fmt.Sprintf("redact-%d", i),
					Module: m,
					Config: json.RawMessage(`{"use":"redact"}`),
					Hooks:  []abi.Hook{contract.HookOnChunk},
				},
			)
		}
		var few float64
		for _, n := range []int{100, 1000, 10_000} {
			us, err := chunk(ctx, h, list, n)
			if err != nil {
				return fmt.Errorf("%d modules, %d chunks: %w", modules, n, err)
			}
			if few == 0 {
				few = us.Used
			}
			fmt.Printf("| %d | %d | %.2f | %.2f | %.2f |\n", modules, n, us.Wall, us.Used, us.Used/few)
		}
	}
	return nil
}

// chunk returns the median time of a chunk in streams of n chunks. It makes more runs for shorter
// streams.
func chunk(ctx context.Context, h *host.Host, list []host.Middleware, n int) (stats.Span, error) {
	s := &streaming{chunks: n}
	a, err := h.NewAgent(ctx, &host.AgentOptions{Model: s, Middlewares: list})
	if err != nil {
		return stats.Span{}, err
	}
	defer a.Close()
	var all []stats.Span
	for run := range max(12, 3000/n) {
		text := 0
		for e, err := range a.Run(ctx, host.Input{Messages: []abi.Message{abi.User("go")}}) {
			if err != nil {
				return stats.Span{}, err
			}
			if e.Type == abi.EventChunk {
				text += len(e.Chunk.Text)
			}
		}
		ended := stats.Now()
		if text != n*len(piece) {
			return stats.Span{}, errors.New("the stream lost something")
		}
		if run >= 2 { // the first two warm up
			all = append(all, ended.Since(s.began, n))
		}
	}
	return stats.MedianSpan(all), nil
}

const piece = "seven, "

// streaming is a model that answers in the given number of chunks.
type streaming struct {
	chunks int
	began  stats.Moment // start of the first chunk
}

// Generate implements [model.Model].
func (s *streaming) Generate(_ context.Context, _ *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	text := make([]byte, 0, s.chunks*len(piece))
	s.began = stats.Now()
	for range s.chunks {
		if err := sink(abi.Chunk{Kind: abi.ChunkText, Text: piece}); err != nil {
			return nil, err
		}
		text = append(text, piece...)
	}
	return &abi.Response{Message: abi.Assistant(string(text)), FinishReason: abi.FinishStop}, nil
}

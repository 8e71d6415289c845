package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/five"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/module/javascript"
)

// counted is the type of a function that returns the counts of a run's observer.
type counted func(run string) (map[string]int, error)

// ourLoop returns a peer that runs this project's agent loop with the given middlewares.
func ourLoop(
	ctx context.Context,
	name string,
	h *host.Host,
	middlewares []host.Middleware,
	conversation []abi.Message,
	counts counted,
) (*peer, error) {
	a, err := h.NewAgent(
		ctx,
		&host.AgentOptions{
			Model:       instant{},
			Tools:       []tool.Tool{search()},
			Middlewares: middlewares,
			Instruction: "You know all orders.",
		},
	)
	if err != nil {
		return nil, err
	}
	return &peer{name: name, close: a.Close, run: func(ctx context.Context) (result, error) {
		var r result
		var text strings.Builder
		run := ""
		ctx, saw := withRunCounts(ctx)
		for e, err := range a.Run(ctx, host.Input{Messages: conversation}) {
			if err != nil {
				return r, err
			}
			switch e.Type {
			case abi.EventChunk:
				if e.Chunk.Kind == abi.ChunkText {
					text.WriteString(e.Chunk.Text)
					r.Chunks++
				}
			case abi.EventToolResult:
				r.Results = append(r.Results, e.Result.Content.String())
			case abi.EventRunFinished:
				run = e.Run
			}
		}
		r.Text, r.Calls, r.Mended = text.String(), saw.calls.Load(), saw.repaired.Load()
		var err error
		r.Counts, err = counts(run)
		return r, err
	}}, nil
}

// ourModules returns a peer with the five middlewares as instances of the module at path.
func ourModules(ctx context.Context, h *host.Host, name, path string, conversation []abi.Message) (*peer, error) {
	m, err := h.Load(ctx, path, host.Limits{})
	if err != nil {
		return nil, err
	}
	var list []host.Middleware
	for _, e := range entries {
		config, _ := json.Marshal(map[string]string{"use": e.name})
		list = append(list, host.Middleware{Name: e.name, Module: m, Config: config, Hooks: e.hooks})
	}
	// The observer stores its counts in a run-local value, which ends with the run. The countReader
	// reads the value when the run finishes. The in-process peer has a countReader as well.
	reader := newCountReader()
	list = append(list, reader.middleware())
	p, err := ourLoop(ctx, name, h, list, conversation, reader.counts)
	if err != nil {
		return nil, err
	}
	p.size, err = sizeOf(path)
	return p, err
}

// sizeOf describes the size of a module. For a script, it adds the size of the engine.
func sizeOf(path string) (string, error) {
	f, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if javascript.IsScript(path) {
		return fmt.Sprintf("%s, run by %s", bytesOf(f.Size()), bytesOf(int64(len(javascript.Engine())))), nil
	}
	return bytesOf(f.Size()), nil
}

func bytesOf(n int64) string {
	if n < 1e6 {
		return fmt.Sprintf("%.0f KB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// inProcess returns a peer with the five middlewares as functions in this process.
func inProcess(ctx context.Context, h *host.Host, name string, conversation []abi.Message) (*peer, error) {
	reader := newCountReader()
	return ourLoop(ctx, name, h, append(functions(), reader.middleware()), conversation, reader.counts)
}

// functions returns the five middlewares in Go.
func functions() []host.Middleware {
	return []host.Middleware{
		{
			Name: "patch",
			Native: &native.Middleware{
				BeforeModelRewriteState: func(
					_ context.Context, c *native.Call, _ *abi.BeforeModelRewriteStateInput,
				) (*abi.BeforeModelRewriteStateAnswer, error) {
					return &abi.BeforeModelRewriteStateAnswer{Messages: abi.ListPatch{Splice: five.Patch(c.List(0).All())}}, nil
				},
			},
		},
		{
			Name: "cache",
			Native: &native.Middleware{
				WrapToolCall: func(
					ctx context.Context, c *native.Call, in *abi.WrapToolCallInput,
				) (*abi.WrapToolCallAnswer, error) {
					key := five.Key(in.Call.Name, in.Call.Arguments)
					kept, hit, err := c.LocalGet(key)
					if err != nil || hit {
						var res abi.Result
						if err == nil {
							err = json.Unmarshal(kept.Value, &res)
						}
						return &abi.WrapToolCallAnswer{Result: &res}, err
					}
					res, err := c.NextTool(ctx, abi.CallPatch{})
					if err != nil {
						return nil, err
					}
					b, err := abijson.Marshal(res)
					if err == nil {
						_, err = c.LocalSet(key, b, abi.LocalAlways)
					}
					return &abi.WrapToolCallAnswer{Result: res}, err
				},
			},
		},
		{
			Name: "policy",
			Native: &native.Middleware{
				GateTool: func(_ context.Context, _ *native.Call, in *abi.GateToolInput) (*abi.GateToolAnswer, error) {
					if ok, why := five.Allowed(in.Call.Name, in.Call.Arguments); !ok {
						return &abi.GateToolAnswer{Decision: "deny", Message: why}, nil
					}
					return &abi.GateToolAnswer{Decision: "allow"}, nil
				},
			},
		},
		{Name: "redact", Native: &native.Middleware{
			OnChunk: func(_ context.Context, _ *native.Call, in *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
				for i := range in.Chunks {
					in.Chunks[i].Text, _ = five.Redact(in.Chunks[i].Text)
				}
				return &abi.OnChunkAnswer{Chunks: in.Chunks}, nil
			},
			AfterTool: func(_ context.Context, _ *native.Call, in *abi.AfterToolInput) (*abi.AfterToolAnswer, error) {
				if in.Result == nil {
					return nil, nil
				}
				text, n := five.Redact(in.Result.Content.String())
				if n == 0 {
					return nil, nil
				}
				res := *in.Result
				res.Content = abi.Text(text)
				return &abi.AfterToolAnswer{Result: &res}, nil
			},
		}},
		{
			Name: "observe",
			Native: &native.Middleware{
				Description: abi.Description{Events: five.Counted},
				Observe: func(_ context.Context, c *native.Call, in *abi.ObserveInput) (*abi.ObserveAnswer, error) {
					kept, _, err := c.LocalGet("run/counts")
					if err != nil {
						return nil, err
					}
					counts := map[string]int{}
					if kept.Value != nil {
						if err := json.Unmarshal(kept.Value, &counts); err != nil {
							return nil, err
						}
					}
					five.Count(counts, in.Events)
					b, err := json.Marshal(counts)
					if err == nil {
						_, err = c.LocalSet("run/counts", b, abi.LocalAlways)
					}
					return nil, err
				},
			},
		},
	}
}

// forwarded returns a peer whose middlewares run elsewhere: call sends a hook's whole input as
// JSON, and returns the answer.
func forwarded(
	ctx context.Context,
	name string,
	h *host.Host,
	conversation []abi.Message,
	call func(ctx context.Context, middleware, hook string, input []byte) ([]byte, error),
) (*peer, error) {
	ask := func(ctx context.Context, middleware, hook string, in, out any) error {
		b, err := abijson.Marshal(in)
		if err != nil {
			return err
		}
		if b, err = call(ctx, middleware, hook, b); err != nil {
			return err
		}
		_, err = abijson.Decode(b, out)
		return err
	}
	list := []host.Middleware{
		{
			Name: "patch",
			Native: &native.Middleware{
				BeforeModelRewriteState: func(
					ctx context.Context, c *native.Call, in *abi.BeforeModelRewriteStateInput,
				) (*abi.BeforeModelRewriteStateAnswer, error) {
					in.Messages.Items = c.List(0).All()
					var out abi.BeforeModelRewriteStateAnswer
					return &out, ask(ctx, "patch", "patch", in, &out)
				},
			},
		},
		{
			Name: "cache",
			Native: &native.Middleware{
				WrapToolCall: func(
					ctx context.Context, c *native.Call, in *abi.WrapToolCallInput,
				) (*abi.WrapToolCallAnswer, error) {
					question, kept := five.Kept{Run: c.Where().ID, Call: in.Call}, five.Kept{}
					if err := ask(ctx, "cache", "cache_get", question, &kept); err != nil {
						return nil, err
					}
					if len(kept.Result) > 0 {
						var res abi.Result
						return &abi.WrapToolCallAnswer{Result: &res}, json.Unmarshal(kept.Result, &res)
					}
					res, err := c.NextTool(ctx, abi.CallPatch{})
					if err != nil {
						return nil, err
					}
					if question.Result, err = abijson.Marshal(res); err != nil {
						return nil, err
					}
					return &abi.WrapToolCallAnswer{Result: res}, ask(ctx, "cache", "cache_put", question, &kept)
				},
			},
		},
		{
			Name: "policy",
			Native: &native.Middleware{
				GateTool: func(ctx context.Context, _ *native.Call, in *abi.GateToolInput) (*abi.GateToolAnswer, error) {
					var out abi.GateToolAnswer
					return &out, ask(ctx, "policy", "policy", in, &out)
				},
			},
		},
		{Name: "redact", Native: &native.Middleware{
			OnChunk: func(ctx context.Context, _ *native.Call, in *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
				var out abi.OnChunkAnswer
				return &out, ask(ctx, "redact", "redact_chunks", in, &out)
			},
			AfterTool: func(ctx context.Context, _ *native.Call, in *abi.AfterToolInput) (*abi.AfterToolAnswer, error) {
				var out abi.AfterToolAnswer
				return &out, ask(ctx, "redact", "redact_result", in, &out)
			},
		}},
		{
			Name: "observe",
			Native: &native.Middleware{
				Description: abi.Description{Events: five.Counted},
				Observe: func(ctx context.Context, _ *native.Call, in *abi.ObserveInput) (*abi.ObserveAnswer, error) {
					var out abi.ObserveAnswer
					return &out, ask(ctx, "observe", "observe", in, &out)
				},
			},
		},
	}
	return ourLoop(ctx, name, h, list, conversation, func(run string) (map[string]int, error) {
		var counts map[string]int
		if err := ask(ctx, "observe", "counts", five.Kept{Run: run}, &counts); err != nil {
			return nil, err
		}
		var nothing struct{}
		return counts, ask(ctx, "cache", "end", five.Kept{Run: run}, &nothing)
	})
}

// A countReader is a middleware that reads the observer's counts from the chain's shared run-local
// values.
type countReader struct {
	mu   sync.Mutex
	seen map[string]map[string]int // counts, by run
}

func newCountReader() *countReader { return &countReader{seen: map[string]map[string]int{}} }

func (s *countReader) middleware() host.Middleware {
	return host.Middleware{Name: "spy", Native: &native.Middleware{
		Description: abi.Description{Events: []abi.EventType{abi.EventRunFinished}},
		Observe: func(_ context.Context, c *native.Call, in *abi.ObserveInput) (*abi.ObserveAnswer, error) {
			kept, _, err := c.LocalGet("run/counts")
			if err != nil || len(kept.Value) == 0 {
				return nil, err
			}
			var counts map[string]int
			err = json.Unmarshal(kept.Value, &counts)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.seen[in.Run.ID] = counts
			return nil, err
		}}}
}

func (s *countReader) counts(run string) (map[string]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts, ok := s.seen[run]
	if !ok {
		return nil, fmt.Errorf("the observer left no counts")
	}
	delete(s.seen, run)
	return counts, nil
}

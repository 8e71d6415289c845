package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A peer is one way to run the agent with the five middlewares.
type peer struct {
	name  string
	size  string // size of the module; empty if the peer has none
	run   func(ctx context.Context) (result, error)
	close func()

	processes []int // other processes that the peer uses
}

// entries holds the five middlewares and their hooks, in the order of the chain.
var entries = []struct {
	name  string
	hooks []abi.Hook
}{
	{"patch", []abi.Hook{contract.HookBeforeModelRewriteState}},
	{"cache", []abi.Hook{contract.HookWrapToolCall}},
	{"policy", []abi.Hook{contract.HookGateTool}},
	{"redact", []abi.Hook{contract.HookOnChunk, contract.HookAfterTool}},
	{"observe", []abi.Hook{contract.HookObserve}},
}

// checked runs a peer's agent once, and fails if the result is not the expected one.
func (p *peer) checked(ctx context.Context) error {
	got, err := p.run(ctx)
	if err == nil {
		err = got.same(want())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// mainPeer is the name of the peer that the others are compared with.
const mainPeer = "here: five modules, Go guests"

// start starts the peers and returns them. If the parameter only is not empty, start skips each
// peer whose name does not contain it. It fails if no peer is left.
func start(
	ctx context.Context,
	h *host.Host,
	files []string,
	conversation []abi.Message,
	only string,
) ([]*peer, error) {
	type maker struct {
		name string
		make func(name string) (*peer, error)
	}
	ours := func(name, path string) maker {
		return maker{name, func(name string) (*peer, error) { return ourModules(ctx, h, name, path, conversation) }}
	}
	makers := []maker{ours(mainPeer, files[0])}
	for _, path := range files[2:] {
		makers = append(makers, ours("here: five modules, "+language(path)+" guests", path))
	}
	makers = append(
		makers,
		maker{
			"native Go in the same chain",
			func(name string) (*peer, error) { return inProcess(ctx, h, name, conversation) },
		},
		maker{"Eino, native Go handlers", func(name string) (*peer, error) { return inEino(ctx, name, conversation) }},
		maker{"Extism Go SDK, with time-outs", func(name string) (*peer, error) {
			return inExtism(ctx, h, name, files[1], 10*time.Second, "usual", conversation)
		}},
		maker{"Extism, time-outs, our JSON", func(name string) (*peer, error) {
			return inExtism(ctx, h, name, files[1], 10*time.Second, "fast", conversation)
		}},
		maker{
			"Extism, nothing stops it, our JSON",
			func(name string) (*peer, error) { return inExtism(ctx, h, name, files[1], 0, "fast", conversation) },
		},
		maker{"hashicorp/go-plugin, gRPC", func(name string) (*peer, error) { return plugins(ctx, h, name, conversation) }},
		maker{"HTTP side-cars", func(name string) (*peer, error) { return sideCars(ctx, h, name, "http", conversation) }},
		maker{
			"HTTP side-cars, our JSON",
			func(name string) (*peer, error) { return sideCars(ctx, h, name, "http-fast", conversation) },
		},
	)
	var peers []*peer
	for _, m := range makers {
		if !strings.Contains(m.name, only) {
			continue
		}
		p, err := m.make(m.name)
		if err != nil {
			for _, p := range peers {
				p.close()
			}
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		peers = append(peers, p)
	}
	if len(peers) == 0 {
		return nil, fmt.Errorf("no peer has %q in its name", only)
	}
	return peers, nil
}

// language returns the language of a guest by the suffix of its file name, or the file name if the
// suffix is unknown.
func language(path string) string {
	name := filepath.Base(path)
	for part, language := range map[string]string{
		"-c.wasm": "C", "-rust.wasm": "Rust", "-tinygo.wasm": "TinyGo", ".ts": "TypeScript",
	} {
		if strings.HasSuffix(name, part) {
			return language
		}
	}
	return name
}

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
)

// A peer runs the agent once.
type peer struct {
	name  string
	size  string // of the module, if it is one
	run   func(ctx context.Context) (result, error)
	close func()

	processes []int // beside this one
}

// entries are the five, in the order in which all peers have them, with the
// hooks of each.
var entries = []struct {
	name  string
	hooks []abi.Hook
}{
	{"patch", []abi.Hook{abi.HookBeforeModelRewriteState}},
	{"cache", []abi.Hook{abi.HookWrapToolCall}},
	{"policy", []abi.Hook{abi.HookGateTool}},
	{"redact", []abi.Hook{abi.HookOnChunk, abi.HookAfterTool}},
	{"observe", []abi.Hook{abi.HookObserve}},
}

// checked runs a peer's agent once, and holds what comes of it against what must.
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

// mainPeer is the one that the others are compared with.
const mainPeer = "here: five modules, Go guests"

// start makes the peers whose name has a text in it.
func start(ctx context.Context, h *host.Host, files []string, talk []abi.Message, only string) ([]*peer, error) {
	type maker struct {
		name string
		make func(name string) (*peer, error)
	}
	ours := func(name, path string) maker {
		return maker{name, func(name string) (*peer, error) { return ourModules(ctx, h, name, path, talk) }}
	}
	makers := []maker{ours(mainPeer, files[0])}
	for _, path := range files[2:] {
		makers = append(makers, ours("here: five modules, "+language(path)+" guests", path))
	}
	makers = append(makers,
		maker{"native Go in the same chain", func(name string) (*peer, error) { return native(ctx, h, name, talk) }},
		maker{"Eino, native Go handlers", func(name string) (*peer, error) { return inEino(ctx, name, talk) }},
		maker{"Extism Go SDK, with time-outs", func(name string) (*peer, error) {
			return inExtism(ctx, h, name, files[1], 10*time.Second, "usual", talk)
		}},
		maker{"Extism, time-outs, our JSON", func(name string) (*peer, error) {
			return inExtism(ctx, h, name, files[1], 10*time.Second, "fast", talk)
		}},
		maker{"Extism, nothing stops it, our JSON", func(name string) (*peer, error) { return inExtism(ctx, h, name, files[1], 0, "fast", talk) }},
		maker{"hashicorp/go-plugin, gRPC", func(name string) (*peer, error) { return plugins(ctx, h, name, talk) }},
		maker{"HTTP side-cars", func(name string) (*peer, error) { return sideCars(ctx, h, name, "http", talk) }},
		maker{"HTTP side-cars, our JSON", func(name string) (*peer, error) { return sideCars(ctx, h, name, "http-fast", talk) }},
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

// language is that of a guest, by its file's name.
func language(path string) string {
	name := filepath.Base(path)
	for part, language := range map[string]string{"-c.wasm": "C", "-rust.wasm": "Rust", "-tinygo.wasm": "TinyGo", ".ts": "TypeScript"} {
		if strings.HasSuffix(name, part) {
			return language
		}
	}
	return name
}

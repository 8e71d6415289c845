package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/stats"
	"github.com/agent-runner/agent-runner/host"
)

// A pair is the agent with the five middlewares, and the same agent without middlewares.
type pair struct{ with, without *peer }

// added prints the processor time of a run with and without the five middlewares, in LangChain.js and
// in this project, and the difference, which is the cost of the middlewares. dir is the folder with
// LangChain.js. The runs of all pairs are interleaved.
func added(
	ctx context.Context,
	h *host.Host,
	dir string,
	files []string,
	conversation []abi.Message,
	turns int,
	each time.Duration,
) error {
	pairs, err := startPairs(ctx, h, dir, files, conversation)
	for _, p := range pairs {
		defer p.with.close()
		defer p.without.close()
	}
	if err != nil {
		return err
	}
	with, without := make([][]float64, len(pairs)), make([][]float64, len(pairs))
	for turn := range turns + 1 {
		each := each
		if turn == 0 {
			each *= 20 // the warm-up; Node.js needs hundreds of runs
		}
		for i, p := range pairs {
			a, err := p.with.perRun(each, func() error { return p.with.checked(ctx) })
			if err != nil {
				return err
			}
			b, err := p.without.perRun(each, func() error { return p.without.unchanged(ctx) })
			if err != nil {
				return err
			}
			if turn > 0 {
				with[i], without[i] = append(with[i], a), append(without[i], b)
			}
		}
	}
	fmt.Println("| | us of the processors a run | without middlewares | added by five middlewares | " +
		"total, as a multiple of the first row | added, as a multiple of the first row |\n|---|---|---|---|---|---|")
	for i, p := range pairs {
		var more, totals, costs []float64
		for turn := range turns {
			cost := with[i][turn] - without[i][turn]
			more = append(more, cost)
			totals = append(totals, with[i][turn]/with[0][turn])
			costs = append(costs, cost/(with[0][turn]-without[0][turn]))
		}
		fmt.Printf(
			"| %s | %.0f | %.0f | %.0f | %.1f | %.1f |\n",
			p.with.name,
			stats.Median(with[i]),
			stats.Median(without[i]),
			stats.Median(more),
			stats.Median(totals),
			stats.Median(costs),
		)
	}
	return versions(ctx, dir)
}

// versions prints the versions of LangChain.js and Node.js.
func versions(ctx context.Context, dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "node_modules", "langchain", "package.json"))
	if err != nil {
		return err
	}
	var langchain struct{ Version string }
	if err := json.Unmarshal(b, &langchain); err != nil {
		return err
	}
	node, err := exec.CommandContext(ctx, "node", "--version").Output()
	if err != nil {
		return err
	}
	fmt.Printf("\nLangChain.js %s, Node.js %s.\n", langchain.Version, bytes.TrimSpace(node))
	return nil
}

// startPairs starts the pairs to compare: this project's agent with modules and with native
// middlewares in Go, and LangChain.js, which is in the folder dir. After an error it returns the
// pairs that it has started.
func startPairs(
	ctx context.Context,
	h *host.Host,
	dir string,
	files []string,
	conversation []abi.Message,
) (pairs []pair, err error) {
	add := func(with, without func() (*peer, error)) {
		if err != nil {
			return
		}
		var p pair
		if p.with, err = with(); err != nil {
			return
		}
		if p.without, err = without(); err != nil {
			p.with.close()
			return
		}
		pairs = append(pairs, p)
	}
	plain := func() (*peer, error) {
		return ourLoop(ctx, "", h, nil, conversation, func(string) (map[string]int, error) { return nil, nil })
	}
	for i, path := range files {
		name := mainPeer
		if i > 0 {
			name = "here: five modules, " + language(path) + " guests"
		}
		add(func() (*peer, error) { return ourModules(ctx, h, name, path, conversation) }, plain)
	}
	add(func() (*peer, error) { return inProcess(ctx, h, "native Go in the same chain", conversation) }, plain)
	for _, way := range []string{"stream", "invoke"} {
		add(
			func() (*peer, error) { return inLangChain(ctx, dir, "five", way, conversation) },
			func() (*peer, error) { return inLangChain(ctx, dir, "none", way, conversation) },
		)
	}
	return pairs, err
}

// perRun repeats a peer's run for the given time, and returns the processor time of one run in
// microseconds.
func (p *peer) perRun(each time.Duration, run func() error) (float64, error) {
	before, err := p.used()
	if err != nil {
		return 0, err
	}
	n, _, err := repeat(each, run)
	if err != nil {
		return 0, err
	}
	after, err := p.used()
	return float64((after - before).Microseconds()) / float64(n), err
}

// unchanged runs a peer without middlewares once, and fails if the run does not reach the final
// answer.
func (p *peer) unchanged(ctx context.Context) error {
	r, err := p.run(ctx)
	if err == nil && (r.Text != answer || len(r.Results) != len(want().Results) || r.Calls != int64(len(want().Results))) {
		err = fmt.Errorf("without middlewares the run came to %+v", r)
	}
	return err
}

// inLangChain returns a peer that runs an agent of LangChain.js in a process of Node.js. middlewares
// is "five" or "none". way is "stream" or "invoke", which yields no chunks.
func inLangChain(ctx context.Context, dir, middlewares, way string, conversation []abi.Message) (*peer, error) {
	cmd := exec.CommandContext(ctx, "node", filepath.Join(dir, "agent.js"), middlewares, way)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "LANGSMITH_TRACING=false", "NODE_ENV=production")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	results := bufio.NewReader(out)
	p := &peer{
		name:      "LangChain.js, createAgent, " + way,
		processes: []int{cmd.Process.Pid},
		close: func() {
			_ = in.Close()
			_ = cmd.Wait()
		},
		run: func(context.Context) (r result, err error) {
			if _, err := io.WriteString(in, "run\n"); err != nil {
				return r, err
			}
			line, err := results.ReadBytes('\n')
			if err != nil {
				return r, errors.Join(err, cmd.Wait())
			}
			err = json.Unmarshal(line, &r)
			if way == "invoke" {
				r.Chunks = want().Chunks
			}
			return r, err
		},
	}
	if err := json.NewEncoder(in).Encode(forLangChain(conversation)); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// forLangChain returns the first input of langchain/agent.js: the conversation, and the answers of
// the model and the tool.
func forLangChain(conversation []abi.Message) any {
	type message struct {
		Role      string         `json:"role"`
		Content   string         `json:"content"`
		ToolCalls []abi.ToolCall `json:"tool_calls,omitempty"`
	}
	var history []message
	for _, m := range conversation {
		history = append(history, message{m.Role, m.Content.String(), m.ToolCalls})
	}
	var calls []string
	for {
		_, call := step(len(calls))
		if call == "" {
			break
		}
		calls = append(calls, call)
	}
	return map[string]any{
		"history": history, "found": found(), "answer": answer, "calls": calls, "dangling": dangling, "canceled": canceled,
	}
}

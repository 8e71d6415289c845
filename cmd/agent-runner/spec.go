package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/agent"
	"github.com/agent-runner/agent-runner/host/agentfile"
	"github.com/agent-runner/agent-runner/host/store"
)

// A spec is kept with a run: from it the command makes the run's agent again.
// Keys are not in it; they come from the environment.
type spec struct {
	Version int             `json:"version"` // 1
	Agent   json.RawMessage `json:"agent"`   // an agentfile.File
	Dirs    []string        `json:"dirs,omitempty"`
	Replay  string          `json:"replay,omitempty"` // the recording that answers
}

// specOf is the spec of an agent's file as the command uses it, with paths that
// hold in any directory.
func specOf(f *agentfile.File, replay string) (json.RawMessage, error) {
	s := spec{Version: 1}
	if err := s.settle(f); err != nil {
		return nil, err
	}
	at := agentfile.Path(replay)
	if replay != builtinRecording {
		if err := absolute(&at); err != nil {
			return nil, err
		}
	}
	s.Replay = string(at)
	var err error
	if s.Agent, err = f.Text(); err != nil {
		return nil, err
	}
	return abi.Marshal(s)
}

// settle makes the paths of an agent's file, and of those of its agents, which become
// parts of it, such that hold in any directory.
func (s *spec) settle(f *agentfile.File) error {
	for _, e := range entries(f) {
		if err := absolute(&e.Module); err != nil {
			return err
		}
	}
	if err := absolute(&f.Tools.Root); err != nil {
		return err
	}
	for i := range f.Tools.MCP {
		dir := agentfile.Path(cmp.Or(f.Tools.MCP[i].Dir, "."))
		if err := absolute(&dir); err != nil {
			return err
		}
		s.Dirs = append(s.Dirs, string(dir))
	}
	for i := range f.Agents {
		a := &f.Agents[i]
		a.Agent, a.File = (*agentfile.Inline)(a.Spec()), ""
		if err := s.settle((*agentfile.File)(a.Agent)); err != nil {
			return err
		}
	}
	return nil
}

// placed gives the MCP servers of an agent's file the directories that they run in,
// in the order of settle, and returns those that are left.
func placed(f *agentfile.File, dirs []string) []string {
	for i := range f.Tools.MCP {
		if len(dirs) > 0 {
			f.Tools.MCP[i].Dir, dirs = dirs[0], dirs[1:]
		}
	}
	for i := range f.Agents {
		dirs = placed(f.Agents[i].Spec(), dirs)
	}
	return dirs
}

func absolute(p *agentfile.Path) error {
	if *p == "" {
		return nil
	}
	abs, err := filepath.Abs(string(*p))
	*p = agentfile.Path(abs)
	return err
}

// fileOf is the agent's file of a run that was kept, and the recording that
// answers in it, if one does.
func fileOf(r *agent.RunInfo) (f *agentfile.File, replay string, err error) {
	var s spec
	if len(r.Spec) == 0 {
		return nil, "", fmt.Errorf("run %s was not started by this command: its agent is not stored with it", r.ID)
	}
	if err := json.Unmarshal(r.Spec, &s); err != nil {
		return nil, "", fmt.Errorf("run %s: read its stored agent: %w", r.ID, err)
	}
	if s.Version != 1 {
		return nil, "", fmt.Errorf("run %s was started by another version of agent-runner", r.ID)
	}
	if f, err = agentfile.Parse("the agent of run "+r.ID, s.Agent); err != nil {
		return nil, "", err
	}
	placed(f, s.Dirs)
	return f, s.Replay, nil
}

// keepModule reads a module for a new run, and keeps it with the runs.
func keepModule(s store.Store) func(ctx context.Context, entry, path string) ([]byte, error) {
	return func(ctx context.Context, _, path string) ([]byte, error) {
		wasm, err := readFile(path, maxModule)
		if err != nil {
			return nil, nil // loading it says what is wrong
		}
		if _, err := s.PutModule(ctx, wasm); err != nil {
			return nil, err
		}
		return wasm, nil
	}
}

// maxModule is the size of a module that is kept, in bytes.
const maxModule = 256 << 20

// keptModule reads the module that a run began with.
func keptModule(s store.Store, r *agent.RunInfo) func(ctx context.Context, entry, path string) ([]byte, error) {
	return func(ctx context.Context, entry, _ string) ([]byte, error) {
		for _, pin := range r.Modules {
			if pin.Entry == entry && pin.Digest != "" {
				return s.Module(ctx, pin.Digest)
			}
		}
		return nil, nil
	}
}

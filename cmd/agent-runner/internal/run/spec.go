package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/module/javascript"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A spec is stored with a run, and describes how to recreate its agent. It contains no
// keys; they come from the environment.
type spec struct {
	Version int             `json:"version"` // 1
	Agent   json.RawMessage `json:"agent"`   // an agentfile.File
	Dirs    []string        `json:"dirs,omitempty"`
	Replay  string          `json:"replay,omitempty"` // the recording with the model's answers
}

// specOf returns the spec of an agent file, with absolute paths.
func specOf(f *agentfile.File, replay string) (json.RawMessage, error) {
	s := spec{Version: 1}
	if err := s.settle(f); err != nil {
		return nil, err
	}
	at := agentfile.Path(replay)
	if err := absolute(&at); err != nil {
		return nil, err
	}
	s.Replay = string(at)
	var err error
	if s.Agent, err = agentfile.Text(f); err != nil {
		return nil, err
	}
	return abijson.Marshal(s)
}

// settle makes the paths of an agent file absolute, inlines the files of its sub-agents, and adds
// the working directories of its MCP servers to s.Dirs.
func (s *spec) settle(f *agentfile.File) error {
	for _, e := range hosting.Entries(f) {
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

// placed sets the working directories of an agent file's MCP servers from dirs, in the order
// in which settle stored them, and returns the remaining directories.
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

// fileOf returns the agent file of a stored run, and its recording, if it has one.
func fileOf(r *journal.RunInfo) (f *agentfile.File, replay string, err error) {
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

// storeModule reads a module for a new run, and stores it. It stores a script with everything that
// it imports.
func (c *runCommand) storeModule(ctx context.Context, _, path string) ([]byte, error) {
	var content []byte
	var err error
	if javascript.IsScript(path) {
		content, err = c.loader.BundleScript(ctx, path)
	} else {
		content, err = cli.ReadFile(path, maxModule)
	}
	if err != nil {
		return nil, nil // loading reports the error
	}
	if _, err := c.store.PutModule(ctx, content); err != nil {
		return nil, err
	}
	return content, nil
}

// maxModule is the maximum size of a stored module, in bytes.
const maxModule = 256 << 20

// storedModule returns a function that reads the modules that a run started with. The function
// returns nil for a script of a run of an earlier version, which stored no scripts.
func storedModule(s store.Store, r *journal.RunInfo) func(ctx context.Context, entry, path string) ([]byte, error) {
	return func(ctx context.Context, entry, path string) ([]byte, error) {
		for _, pin := range r.Modules {
			if pin.Entry != entry || pin.Digest == "" {
				continue
			}
			content, err := s.Module(ctx, pin.Digest)
			if errors.Is(err, store.ErrNoModule) && javascript.IsScript(path) {
				return nil, nil
			}
			return content, err
		}
		return nil, nil
	}
}

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/rerun"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/runs"
)

// A Replay replays a stored run twice: with its own modules, and with one of them replaced. The
// model and the tools give their recorded answers.
type Replay struct {
	Env                      *cli.Env
	Id, Path, Entry, StoreAt string
	Output, CacheDir         string
	Chosen                   bool

	where    string // the location of the store
	replaced string // the name of the entry whose module is replaced; "" for the first replay
	run      *rerun.Run
	file     *agentfile.File
	options  host.FileOptions
	host     *host.Host
}

// Do replays the run and prints the difference.
func (p *Replay) Do(ctx context.Context) error {
	ctx, stop := cli.Interruptible(ctx, func() {})
	defer stop()
	stored := &runsCommand{env: p.Env}
	var err error
	at := cmp.Or(p.StoreAt, p.Env.Getenv(hosting.EnvStore), hosting.DefaultStore)
	if stored.store, err = hosting.OpenExistingStore(ctx, p.Env, at); err != nil {
		return err
	}
	defer stored.store.Close()
	p.where = hosting.RedactedLocation(hosting.StorePath(p.Env, at))
	if err := p.load(ctx, stored); err != nil {
		return cli.BeforeRun(ctx, err)
	}
	r := &runCommand{env: p.Env, cacheDir: p.CacheDir, chosen: p.Chosen, screen: cli.NewScreen(p.Env)}
	if p.host, err = r.host(ctx); err != nil {
		return err
	}
	defer hosting.CloseHost(p.host)
	diff, err := p.replay(ctx)
	if err != nil {
		return cli.BeforeRun(ctx, explainConfig(err))
	}
	return p.show(diff)
}

// load reads the run, its recorded calls and its agent. It fails if the run cannot be replayed.
func (p *Replay) load(ctx context.Context, stored *runsCommand) (err error) {
	if p.run, err = rerun.Read(ctx, stored.store, p.Id); errors.Is(err, journal.ErrNoRun) {
		return fmt.Errorf("%w in %s; name the store of the run, or of its server, with --store", err, p.where)
	}
	if err != nil {
		return err
	}
	info := p.run.Info
	if strings.HasPrefix(string(info.Spec), runs.SpecPrefix) {
		p.file, err = agents.StoredAgent(ctx, stored.store, info, &p.options)
	} else {
		p.file, _, err = fileOf(info)
	}
	if err != nil {
		return err
	}
	p.options.ReadModule = p.readModule(storedModule(stored.store, info))
	return nil
}

// readModule returns a function that reads the stored modules of the run. For the replaced entry,
// which may be in a ring of several agents, the function returns nil, so that the replacement is
// loaded from its file.
func (p *Replay) readModule(
	stored func(ctx context.Context, entry, path string) ([]byte, error),
) func(ctx context.Context, entry, path string) ([]byte, error) {
	return func(ctx context.Context, entry, path string) ([]byte, error) {
		if p.replaced != "" && path == p.Path && entry[strings.LastIndex(entry, "/")+1:] == p.replaced {
			return nil, nil
		}
		return stored(ctx, entry, path)
	}
}

// replay replays the run with its own modules and with the replacement, and compares the two replays.
func (p *Replay) replay(ctx context.Context) (*runDiff, error) {
	diff := &runDiff{Run: p.Id}
	var err error
	if diff.Entry, diff.Digest, err = p.which(p.run.Info); err != nil {
		return nil, err
	}
	path, err := hosting.Buildable(ctx, p.Env, p.Path)
	if err != nil {
		return nil, err
	}
	if p.Path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	own := rerun.NewPass(p.run, nil)
	if err := p.pass(ctx, own, true); err != nil {
		return nil, err
	}
	if !replaceModule(p.file, "", diff.Entry, p.Path) {
		return nil, fmt.Errorf("replay run %s: the file of its agent has no entry %q", p.Id, diff.Entry)
	}
	p.replaced = diff.Entry[strings.LastIndex(diff.Entry, "/")+1:]
	other := rerun.NewPass(p.run, own)
	if err := p.pass(ctx, other, false); err != nil {
		return nil, err
	}
	diff.compare(own, other)
	return diff, nil
}

// replaceModule sets the module of an entry. The entry of a sub-agent is prefixed with the
// sub-agent's name and a slash. replaceModule reports whether the file has the entry.
func replaceModule(f *agentfile.File, prefix, entry, path string) bool {
	for _, m := range hosting.Entries(f) {
		if prefix+m.Name == entry {
			m.Module = agentfile.Path(path)
			return true
		}
	}
	for i := range f.Agents {
		if inner := f.Agents[i].Spec(); inner != nil && replaceModule(inner, f.Agents[i].Name+"/", entry, path) {
			return true
		}
	}
	return false
}

// pass replays the run once. If own is set, the modules must be those that the run began with.
func (p *Replay) pass(ctx context.Context, r *rerun.Pass, own bool) error {
	o := p.options
	r.Isolate(p.file, &o)
	a, err := p.host.NewAgentFromFile(ctx, p.file, &o)
	if err != nil {
		return err
	}
	defer a.Close()
	if own {
		if err := p.run.CheckModules(a.Agent); err != nil {
			return err
		}
	}
	return r.Run(ctx, a)
}

// which returns the entry whose module is replaced, and that module's digest.
func (p *Replay) which(r *journal.RunInfo) (entry, digest string, err error) {
	name := cmp.Or(p.Entry, agentfile.EntryName(p.Path))
	var names []string
	for _, pin := range r.Modules {
		if pin.Entry == name {
			return name, pin.Digest, nil
		}
		names = append(names, pin.Entry)
	}
	if p.Entry == "" && len(r.Modules) == 1 {
		return r.Modules[0].Entry, r.Modules[0].Digest, nil
	}
	return "", "", cli.Usagef("run %s had no module %q%s; choose one with --entry", r.ID, name, cli.Among(name, names))
}

// show prints the difference. It returns an error if the runs differ.
func (p *Replay) show(d *runDiff) error {
	var err error
	if p.Output == "json" {
		err = cli.PrintJSON(p.Env, d)
	} else {
		_, err = fmt.Fprint(p.Env.Out, d.text())
	}
	switch {
	case err != nil || d.Same:
		return err
	case !d.Differs():
		return cli.Ended(cli.ExitFailed, errors.New("the stored run cannot be reproduced, so it cannot be compared"))
	default:
		return cli.Ended(cli.ExitFailed, errors.New("the run would have been different"))
	}
}

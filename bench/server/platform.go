package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/apiclient"
	"github.com/agent-runner/agent-runner/bench/internal/load"
	"github.com/agent-runner/agent-runner/bench/internal/process"
	"github.com/agent-runner/agent-runner/bench/internal/serving"
	"github.com/agent-runner/agent-runner/host/api"
)

// A platform is the server process under test.
type platform struct {
	*serving.Server
	dir      string
	operator *apiclient.Client
	wasm     []byte
}

// startPlatform starts a server with an empty store and returns it. env is added to the environment
// of the server.
func startPlatform(program string, wasm []byte, model string, env ...string) (*platform, error) {
	dir, err := os.MkdirTemp("", "bench-server")
	if err != nil {
		return nil, err
	}
	p := &platform{dir: dir, wasm: wasm}
	p.Server, err = serving.Start(&serving.Options{
		Program: program,
		Dir:     dir,
		Store:   filepath.Join(dir, "platform.db"),
		Model:   model,
		Env:     env,
	})
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	if p.operator, err = apiclient.New(apiclient.Pool(), p.URL, p.OperatorKey()); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *platform) close() {
	p.Terminate()
	_ = os.RemoveAll(p.dir)
}

// resident returns the server's resident memory in bytes, or 0 if the server has ended.
func (p *platform) resident() int64 {
	s, _ := process.Read(p.PID())
	return s.Resident
}

// processor returns the server's processor time, including children that have ended, or 0 if the
// server has ended.
func (p *platform) processor() time.Duration {
	s, _ := process.Read(p.PID())
	return s.Used
}

// A tenant is a client with the key of a tenant of the platform.
type tenant struct {
	*apiclient.Client
	id string
}

// tenant creates a tenant with a quota and a key, and returns it. The tenant's policy allows all
// models and all grants.
func (p *platform) tenant(id string, quota *api.TenantQuota) (*tenant, error) {
	c, err := p.operator.NewTenant(context.Background(), id, quota)
	return &tenant{c, id}, err
}

// tenants creates n tenants, calls [tenant.populate] for each, and returns them.
func (p *platform) tenants(prefix string, n int, model string, modules ...int) ([]*tenant, error) {
	out := make([]*tenant, n)
	err := load.Each(4, n, func(i int) (err error) {
		if out[i], err = p.tenant(fmt.Sprint(prefix, i), nil); err != nil {
			return err
		}
		return out[i].populate(p.wasm, model, modules)
	})
	return out, err
}

// populate adds agents that use the model to a tenant, one for each element of modules, which is
// the agent's number of modules. If an agent has modules, populate first uploads the module wasm.
func (t *tenant) populate(wasm []byte, model string, modules []int) error {
	ctx := context.Background()
	if slices.Max(modules) > 0 {
		if err := t.Upload(ctx, "look", wasm); err != nil {
			return err
		}
	}
	for _, n := range modules {
		if _, err := t.PutAgent(ctx, agentOf(model, n), agentFile(model, n)); err != nil {
			return err
		}
	}
	return nil
}

func agentOf(model string, modules int) string { return fmt.Sprint(model, "-", modules) }

func agentFile(model string, modules int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "model: {name: %s}\n", model)
	if modules > 0 {
		b.WriteString("middlewares:\n")
	}
	for i := range modules {
		fmt.Fprintf(&b, "  - {name: look-%d, module: look, config: {at: all}}\n", i)
	}
	return b.Bytes()
}

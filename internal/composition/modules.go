package composition

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// Modules runs puppets as WebAssembly modules in the sandbox, through the whole ABI.
type Modules struct {
	puppet *module.Module
	grants policy.Grants
}

// NewModules returns the checks for puppet, the loaded module wasm-puppet.
func NewModules(puppet *module.Module) (*Modules, error) {
	grants, err := policy.ParseGrants([]string{"model", "tool:" + plainTool})
	return &Modules{puppet, grants}, err
}

// Check returns a check that runs a composition's agent twice with its puppets as modules. Both
// runs must match the prediction and use the same fuel.
func (m *Modules) Check() Check { return Check{"modules", 20, m.check} }

func (m *Modules) check(ctx context.Context, c *Composition) string {
	c = c.quiet()
	configured := map[string]*module.Middleware{}
	defer func() {
		for _, m := range configured {
			m.Close()
		}
	}()
	s := &seen{}
	a, err := s.agent(c, &stage{puppet: func(e *Entry) (hook.Middleware, error) {
		config, err := json.Marshal(e.Hooks)
		if err != nil {
			return nil, err
		}
		configured[e.Name], err = module.Configure(ctx, m.puppet, e.Name, config, m.grants)
		return configured[e.Name], err
	}}, rootName)
	if err != nil {
		return err.Error()
	}
	want := Predict(c)
	var before map[string]int64
	for _, id := range []string{"run 1", "run 2"} {
		s.reset()
		if err := s.run(ctx, c, a, id); err != nil {
			return id + ": " + err.Error()
		}
		if want.Open || s.switchedOff() {
			return ""
		}
		if wrong := s.against(want); wrong != "" {
			return id + ": " + wrong
		}
		fuel := s.fuel()
		if before != nil && !maps.Equal(before, fuel) {
			return fmt.Sprintf("%s used the fuel %v, the one before it %v\n", id, fuel, before)
		}
		before = fuel
	}
	return ""
}

// fuel returns the fuel that each entry used in the observed run.
func (s *seen) fuel() map[string]int64 {
	out := map[string]int64{}
	last := s.events[len(s.events)-1]
	for _, e := range last.Entries {
		out[e.Entry] = e.Fuel
	}
	return out
}

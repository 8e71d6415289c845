package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/host"
)

// A defence is a list of middlewares to compare with other lists. list returns the middlewares for a
// suite and a task of the user. They depend on the task only if the defence is an oracle.
type defence struct {
	name string
	list func(s *suite, user *task) ([]host.Middleware, error)
}

// A library loads each module once.
type library struct {
	host   *host.Host
	folder string
	loaded map[string]*host.Module
}

// entry returns an entry whose module is the file NAME.wasm in the folder.
func (l *library) entry(ctx context.Context, name string, config any) (host.Middleware, error) {
	m := l.loaded[name]
	if m == nil {
		limits := host.Limits{}
		limits.HookTime = time.Minute // the machine may be busy
		var err error
		if m, err = l.host.Load(ctx, filepath.Join(l.folder, name+".wasm"), limits); err != nil {
			return host.Middleware{}, fmt.Errorf("%w; make examples builds the modules", err)
		}
		l.loaded[name] = m
	}
	raw, err := json.Marshal(config)
	return host.Middleware{Name: name, Module: m, Config: raw}, err
}

type object = map[string]any

// defences returns the compared defences, from no defence to the one that this project recommends.
func defences(ctx context.Context, l *library) []defence {
	one := func(name string, config func(s *suite, user *task) any) func(*suite, *task) ([]host.Middleware, error) {
		return func(s *suite, user *task) ([]host.Middleware, error) {
			e, err := l.entry(ctx, name, config(s, user))
			return []host.Middleware{e}, err
		}
	}
	always := func(config object) func(*suite, *task) any { return func(*suite, *task) any { return config } }
	oracle := one("tool-policy", func(s *suite, user *task) any { return denying(s.writers(), user) })
	provenance := one("provenance", always(object{}))
	return []defence{
		{"none", func(*suite, *task) ([]host.Middleware, error) { return nil, nil }},
		{"oracle tool filter", oracle},
		{"tool-policy, only reading", one("tool-policy", func(s *suite, _ *task) any { return denying(s.writers(), nil) })},
		{"guard", one("guard", always(object{}))},
		{"exact matches only", one("provenance", always(object{"unasked": "allow", "records": false, "documents": false}))},
		{"provenance without documents", one("provenance", always(object{"documents": false}))},
		{"provenance", provenance},
		{"provenance and oracle", func(s *suite, user *task) ([]host.Middleware, error) {
			a, err := provenance(s, user)
			if err != nil {
				return nil, err
			}
			b, err := oracle(s, user)
			return append(a, b...), err
		}},
	}
}

// writers returns the tools that change something in a trace.
func (s *suite) writers() []string {
	var out []string
	for _, t := range slices.Concat(s.UserTasks, s.InjectionTasks) {
		for _, c := range t.Calls {
			if c.Writes && !slices.Contains(out, c.Function) {
				out = append(out, c.Function)
			}
		}
	}
	slices.Sort(out)
	return out
}

// denying returns a configuration of tool-policy that denies tools, except those that the task user
// calls. user may be nil.
func denying(tools []string, user *task) object {
	tools = slices.DeleteFunc(slices.Clone(tools), func(name string) bool {
		return user != nil && slices.ContainsFunc(user.Calls, func(c call) bool { return c.Function == name })
	})
	if len(tools) == 0 {
		return object{}
	}
	return object{"rules": []object{{"tools": tools, "action": "deny"}}}
}

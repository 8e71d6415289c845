package main

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/names"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// A book stores counters by name.
type book interface {
	add(ctx *middleware.Context, name string, delta int64) (int64, error)
	get(ctx *middleware.Context, name string) (int64, error)
}

// A runBook stores counters as run-local values.
type runBook struct{}

func (runBook) add(ctx *middleware.Context, name string, delta int64) (int64, error) {
	return middleware.Counter(name).Add(ctx, delta)
}

func (runBook) get(ctx *middleware.Context, name string) (int64, error) {
	return middleware.Counter(name).Get(ctx)
}

// A dayBook stores counters as durable values, under new keys each day. They expire after
// two days.
type dayBook struct{}

func (dayBook) key(ctx *middleware.Context, name string) string {
	return time.UnixMilli(ctx.Run.NowMS).UTC().Format(time.DateOnly) + "/" + name
}

// add adds delta to the day's counter and returns the new value. The first addition of a day also
// sets the expiry.
func (b dayBook) add(ctx *middleware.Context, name string, delta int64) (int64, error) {
	key := b.key(ctx, name)
	if n, err := (middleware.StoredCounter(key)).Add(ctx, delta); err != nil || n != delta {
		return n, err
	}
	// This is probably the first count of the day. Set the expiry.
	value := middleware.Stored[int64](key)
	for {
		n, version, err := value.Load(ctx)
		if err != nil {
			return 0, err
		}
		if ok, err := value.CompareAndSet(ctx, n, version, 48*time.Hour); ok || err != nil {
			return delta, err
		}
	}
}

func (b dayBook) get(ctx *middleware.Context, name string) (int64, error) {
	return middleware.StoredCounter(b.key(ctx, name)).Get(ctx)
}

// Names of counters.
const (
	modelCalls = "model_calls"
	toolCalls  = "tool_calls"
	tokensUsed = "tokens"
	moneySpent = "money" // in millionths
)

// A period holds limits and counts usage against them.
type period struct {
	name string
	amounts
	book
}

func (p *period) empty() bool {
	return p.ModelCalls == 0 && p.ToolCalls == 0 && len(p.Tools) == 0 && p.Tokens == 0 && p.Money == 0
}

func (p *period) hit(what string, limit any) *hit {
	return &hit{By: p.name, What: what, Max: middleware.Sprintf("%v", limit)}
}

// spent returns the limit on tokens or money that is used up, or nil.
func (p *period) spent(ctx *middleware.Context) (*hit, error) {
	for _, l := range []struct {
		name  string
		limit int64
		hit   func() *hit
	}{
		{tokensUsed, p.Tokens, func() *hit { return p.hit("tokens", p.Tokens) }},
		{moneySpent, millionths(p.Money), func() *hit {
			return p.hit("money", strconv.FormatFloat(p.Money, 'f', -1, 64))
		}},
	} {
		if l.limit == 0 {
			continue
		}
		if n, err := p.get(ctx, l.name); err != nil || n >= l.limit {
			return l.hit(), err
		}
	}
	return nil, nil
}

// use adds the tokens and the money (in millionths) of a model call to the counters.
func (p *period) use(ctx *middleware.Context, tokens, money int64) error {
	if p.Tokens > 0 && tokens > 0 {
		if _, err := p.add(ctx, tokensUsed, tokens); err != nil {
			return err
		}
	}
	if p.Money > 0 && money > 0 {
		if _, err := p.add(ctx, moneySpent, money); err != nil {
			return err
		}
	}
	return nil
}

// tool counts a tool call. If that exceeds a limit, tool undoes the count and returns the
// limit.
func (p *period) tool(ctx *middleware.Context, tool string) (*hit, error) {
	type one struct {
		name, what string
		limit      int64
	}
	var all []one
	if p.ToolCalls > 0 {
		all = append(all, one{toolCalls, "tool calls", p.ToolCalls})
	}
	for _, pattern := range slices.Sorted(maps.Keys(p.Tools)) {
		if names.Match([]string{pattern}, tool) {
			all = append(all, one{"tool/" + pattern, "calls of " + pattern, p.Tools[pattern]})
		}
	}
	for i, c := range all {
		n, err := p.add(ctx, c.name, 1)
		if err != nil {
			return nil, err
		}
		if n <= c.limit {
			continue
		}
		for _, counted := range all[:i+1] {
			if _, err := p.add(ctx, counted.name, -1); err != nil {
				return nil, err
			}
		}
		return p.hit(c.what, c.limit), nil
	}
	return nil, nil
}

// back undoes the count of a tool call that another period rejected.
func (p *period) back(ctx *middleware.Context, tool string) error {
	if p.ToolCalls > 0 {
		if _, err := p.add(ctx, toolCalls, -1); err != nil {
			return err
		}
	}
	for pattern := range p.Tools {
		if names.Match([]string{pattern}, tool) {
			if _, err := p.add(ctx, "tool/"+pattern, -1); err != nil {
				return err
			}
		}
	}
	return nil
}

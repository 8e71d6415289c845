// Command tool-cache is a middleware that calls a tool once for the same
// arguments: a second call in the run gets the answer of the first.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/names"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "tool-cache",
		Version:     "1.0.0",
		Description: "Answers a tool call from the run's earlier one with the same arguments.",
	}, newCache())
}

func main() {}

func newCache() *cache { return &cache{MaxBytes: 64 << 10} }

// generation counts the calls after which earlier answers no longer count.
const generation = middleware.Counter("generation")

type cache struct {
	Tools    []string `json:"tools" doc:"names of the tools whose answers are kept, * for any characters; without it, all that say they are idempotent"`
	Forget   []string `json:"forget" doc:"tools after whose calls all answers are forgotten: those that write what the others read"`
	MaxBytes int      `json:"max_bytes" doc:"a larger answer is not kept"`
}

// Configure refuses a limit below which nothing would be kept.
func (c *cache) Configure(*middleware.Context) error {
	if c.MaxBytes <= 0 {
		return &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("config: max_bytes: %d is not above 0; leave the module out to keep nothing", c.MaxBytes)}
	}
	return nil
}

// WrapToolCall answers from what is kept, or else lets the call go on and
// keeps its result.
func (c *cache) WrapToolCall(ctx *middleware.Context, call *middleware.Call, next middleware.NextTool) (*abi.Result, error) {
	if names.Match(c.Forget, call.Name) {
		result, failed := next(nil)
		if _, err := generation.Add(ctx, 1); err != nil {
			return nil, err
		}
		return result, failed
	}
	if kept := len(c.Tools) == 0 && call.Idempotent || names.Match(c.Tools, call.Name); !kept {
		return nil, nil
	}
	key, err := c.key(ctx, call)
	if err != nil {
		return nil, err
	}
	answer := middleware.Local[json.RawMessage]("answer/" + key)
	if raw, hit, err := answer.Get(ctx); err != nil || hit {
		return c.hit(ctx, call, key, raw, err)
	}
	result, err := next(nil)
	if err != nil || result.IsError {
		return result, err
	}
	if raw, err := abi.Marshal(result); err == nil && len(raw) <= c.MaxBytes {
		// At once, and only if a parallel call has not been faster. What finds
		// no room is not kept.
		if _, err := answer.CompareAndSet(ctx, raw, 0); err != nil {
			ctx.Debugf("the answer of %s is not kept: %v", call.Name, err)
		}
	}
	return result, nil
}

func (c *cache) hit(ctx *middleware.Context, call *middleware.Call, key string, raw json.RawMessage, err error) (*abi.Result, error) {
	if err != nil {
		return nil, err
	}
	var result abi.Result
	if _, err := abi.Decode(raw, &result); err != nil {
		return nil, err
	}
	return &result, ctx.Emit("cache_hit", map[string]string{"tool": call.Name, "key": key})
}

// key is the same for all ways to write the same arguments: order of keys,
// spaces and escapes do not count.
func (c *cache) key(ctx *middleware.Context, call *middleware.Call) (string, error) {
	n, err := generation.Get(ctx)
	if err != nil {
		return "", err
	}
	var arguments map[string]any
	d := json.NewDecoder(strings.NewReader(call.Arguments))
	d.UseNumber()
	if err := d.Decode(&arguments); err != nil && call.Arguments != "" {
		return "", err
	}
	b, err := abi.Marshal([]any{n, call.Name, arguments})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16]), nil
}

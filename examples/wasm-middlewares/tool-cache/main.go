// Command tool-cache is a middleware that caches the answers of tools: a second call with
// the same arguments gets the answer of the first, within a run or, with a durable store,
// across runs.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/callkey"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/names"
	"github.com/agent-runner/agent-runner/guest-sdk/go/json"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "tool-cache",
		Version:     "1.1.0",
		Description: "Answers a tool call from an earlier one with the same arguments.",
	}, newCache())
}

func main() {}

func newCache() *cache { return &cache{MaxBytes: 64 << 10} }

// maxTTL is the maximum lifetime of an answer in seconds: one year.
const maxTTL = 365 * 24 * 3600

type cache struct {
	Tools    []string `json:"tools" doc:"names of the tools whose answers are cached, * matches any characters; defaults to all tools declared idempotent"`
	Forget   []string `json:"forget" doc:"tools whose calls clear the cache: those that write what the others read"`
	TTL      int64    `json:"ttl" doc:"the number of seconds that an answer is cached; 0: for the duration of the run"`
	Durable  bool     `json:"durable" doc:"cache answers for other runs, too; needs ttl, and the grant store"`
	By       []string `json:"by" doc:"keys of the run's metadata whose values must be the same, too, for example the user's"`
	MaxBytes int      `json:"max_bytes" doc:"larger answers are not cached"`

	resultCache resultCache
}

// Configure rejects configurations that would cache nothing, or would cache answers forever.
func (c *cache) Configure(*middleware.Context) error {
	switch {
	case c.MaxBytes <= 0:
		return invalid("max_bytes: %d is not above 0; remove the module to cache nothing", c.MaxBytes)
	case c.TTL < 0 || c.TTL > maxTTL:
		return invalid("ttl: %d is not a number of seconds from 0 to %d, a year", c.TTL, maxTTL)
	case c.Durable && c.TTL == 0:
		return invalid("ttl: want the lifetime of answers in seconds; durable answers would otherwise be stored forever")
	}
	c.resultCache = runCache{}
	if c.Durable {
		c.resultCache = storeCache{time.Duration(c.TTL) * time.Second}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeInvalid, Message: "config: " + fmt.Sprintf(format, args...)}
}

// WrapToolCall answers from the cache, or forwards the call and caches its result, unless that is
// an error or too large. If the tool's answers are not cached, or if the cache fails, it leaves the
// call to the host. After a call of a tool in Forget, it clears the cache.
func (c *cache) WrapToolCall(
	ctx *middleware.Context,
	call *middleware.Call,
	next middleware.NextTool,
) (*abi.Result, error) {
	if names.Match(c.Forget, call.Name) {
		result, failed := next(nil)
		if err := c.resultCache.clear(ctx); err != nil {
			ctx.Warnf("after %s, the cached answers could not be cleared: %v", call.Name, err)
		}
		return result, failed
	}
	if cached := len(c.Tools) == 0 && call.Idempotent || names.Match(c.Tools, call.Name); !cached {
		return nil, nil
	}
	key, err := c.key(ctx, call)
	if err != nil {
		ctx.Warnf("the answer of %s cannot be looked up: %v", call.Name, err)
		return nil, nil
	}
	answer, version, err := c.resultCache.load(ctx, key)
	if err != nil {
		ctx.Warnf("the answer of %s cannot be looked up: %v", call.Name, err)
		return nil, nil
	}
	if version != 0 && (c.TTL == 0 || ctx.Run.NowMS < answer.AtMS+c.TTL*1000) {
		return c.hit(ctx, call, key, answer)
	}
	result, err := next(nil)
	if err != nil || result.IsError {
		return result, err
	}
	if raw, err := json.Marshal(result); err == nil && len(raw) <= c.MaxBytes {
		// save fails if a concurrent call has stored a result since the lookup, or if there is no
		// space left.
		if err := c.resultCache.save(ctx, key, cached{raw, ctx.Run.NowMS}, version); err != nil {
			ctx.Debugf("the answer of %s is not cached: %v", call.Name, err)
		}
	}
	return result, nil
}

func (c *cache) hit(ctx *middleware.Context, call *middleware.Call, key string, answer cached) (*abi.Result, error) {
	var result abi.Result
	if _, err := json.Decode(answer.Result, &result); err != nil {
		return nil, err
	}
	return &result, ctx.Emit("cache_hit", map[string]string{"tool": call.Name, "key": key})
}

// key returns the cache key, which is the same for all spellings of the same arguments.
func (c *cache) key(ctx *middleware.Context, call *middleware.Call) (string, error) {
	n, err := c.resultCache.generation(ctx)
	if err != nil {
		return "", err
	}
	same, err := callkey.Of(call.Name, call.Arguments)
	if err != nil {
		return "", err
	}
	by := make([]abi.JSON, len(c.By))
	for i, name := range c.By {
		by[i] = ctx.Run.Metadata[name]
	}
	b, err := json.Marshal([]any{n, same, by})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16]), nil
}

package hook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// maxOwn is the maximum number of calls of Model and Tool together in one hook call.
const maxOwn = 64

// An Own is a kind of call that a middleware makes for itself.
type Own string

// The kinds, named like their imports.
const (
	OwnModel Own = "model"
	OwnTool  Own = "tool"
)

// A frame is a call in progress that a middleware made for itself.
type frame struct {
	by *Member
	of Own
}

// A nester makes the calls that middlewares make for themselves.
type nester interface {
	// NestedModel makes a call of the model for c's middleware.
	NestedModel(ctx context.Context, c *Control, req abi.RequestPatch) (*abi.Response, error)
	// NestedTool makes a call of one of the agent's tools for c's middleware.
	NestedTool(ctx context.Context, c *Control, name, arguments string) (*abi.Result, error)
}

// Model calls the model for the middleware itself, for example to summarize or to judge. req has
// all messages to send, and the tools to offer. The tools are not called. The model and its
// parameters are the agent's unless req replaces them.
//
// The call passes the hooks of the outer and the inner ring, except those of the middleware itself
// and the others that [Run.Past] returns. It is not streamed and does not become part of the
// conversation. The error is an *abi.Error, or ends the run.
func (c *Call) Model(ctx context.Context, req abi.RequestPatch) (*abi.Response, error) {
	var res *abi.Response
	err := c.own(OwnModel, func(n nester) (err error) {
		res, err = n.NestedModel(ctx, ControlOf(c), req)
		return err
	})
	return res, err
}

// Tool calls one of the agent's tools for the middleware itself, through all rings and gates except
// the hooks of the middleware. arguments is a JSON object; "" counts as "{}". A failed or denied
// call returns an error result, as a model would see it. The call does not become part of the
// conversation. The error is an *abi.Error, or ends the run.
func (c *Call) Tool(ctx context.Context, name, arguments string) (*abi.Result, error) {
	var res *abi.Result
	err := c.own(OwnTool, func(n nester) (err error) {
		res, err = n.NestedTool(ctx, ControlOf(c), name, arguments)
		return err
	})
	return res, err
}

// own checks and counts a call that the middleware makes for itself, and makes the call with fn. It
// returns the error of fn. If that error ends or pauses the run, [Control.Ending] returns it too.
func (c *Call) own(of Own, fn func(nester) error) error {
	c.mu.Lock()
	did := c.activity()
	did.owns++
	n := did.owns
	c.mu.Unlock()
	switch {
	case c.Hook == contract.HookObserve || Translates(c.Hook):
		return denied("%s is not available to %s, which changes nothing in the run", of, c.Hook)
	case c.run.Nested == nil:
		return &abi.Error{
			Code:    abi.CodeUnavailable,
			Message: fmt.Sprintf("%s is not available: there is no agent around this chain", of),
		}
	case len(c.run.path) >= contract.MaxNested:
		return &abi.Error{
			Code: abi.CodeLimit,
			Message: fmt.Sprintf("calls of model and tool lie within one another %d deep; that is the most there may be",
				contract.MaxNested),
		}
	case n > maxOwn:
		return &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("a hook may call model and tool %d times", maxOwn)}
	}
	if err := c.run.mayHold(string(of)); err != nil {
		return err
	}
	return c.waitFor(func() error { return fn(c.run.Nested) })
}

// CountOwn counts a call that the middleware makes for itself in the entry's statistics.
func (c *Control) CountOwn(of Own) {
	if of == OwnModel {
		c.member.ownModel.Add(1)
		return
	}
	c.member.ownTool.Add(1)
}

// By returns the origin of a tool call that the middleware makes for itself: the entry, the hook
// and, in a hook of a tool call, the ID of that tool call.
func (c *Control) By() *abi.By {
	by := &abi.By{Entry: c.member.Name, Hook: c.Hook}
	if c.tool != nil {
		by.Call = c.tool.ID
	}
	return by
}

// Within returns a copy of the run for a call that the middleware makes for itself. The copy has
// its own keys in the record, and the lists of the surrounding run.
func (c *Control) Within(of Own, id string) *Run {
	r := *c.run
	r.Scope = id
	r.path = append(slices.Clip(c.run.path), frame{c.member, of})
	r.Settled = c.run.Settled || c.call().mayInterrupt() != nil || cannotPause[c.Hook]
	r.last = c.run.last || c.Hook == contract.HookAfterAgent
	return &r
}

// Past returns the members whose hooks the innermost call skips.
//
// A tool call skips the hooks of its caller only: if another module makes a call within it, the
// caller's gates apply to that call. A model call also skips the hooks of the callers of the
// surrounding model calls, up to the nearest tool call. Otherwise two modules that judge answers
// would judge each other's judgements without end.
func (r *Run) Past() map[*Member]bool {
	last := r.path[len(r.path)-1]
	past := map[*Member]bool{last.by: true}
	for _, f := range slices.Backward(r.path) {
		if last.of != OwnModel || f.of != OwnModel {
			break
		}
		past[f.by] = true
	}
	return past
}

// cannotPause has the hooks that cannot pause a run. A call that a middleware makes in one of these
// hooks cannot pause the run either.
var cannotPause = map[abi.Hook]bool{
	contract.HookOnChunk:      true,
	contract.HookToolMessages: true,
	contract.HookAfterAgent:   true,
}

// Identify returns an ID for a call that the middleware makes for itself. The ID follows from the
// request, so that it is the same in each pass through the phase, whatever calls precede it.
// Identical requests of one hook call are numbered.
func (c *Control) Identify(of Own, request any) (string, error) {
	b, err := abijson.Marshal(request)
	if err != nil {
		return "", err
	}
	at := Digest(c.run.Host.Where().StepID + "\n" + c.key + "\n" + string(of) + "\n" + string(b))
	c.mu.Lock()
	defer c.mu.Unlock()
	did := c.call().activity()
	if did.same == nil {
		did.same = map[string]int{}
	}
	did.same[at]++
	return Digest(at + strconv.Itoa(did.same[at]))[:16], nil
}

// DigestLen is the length of a [Digest].
const DigestLen = 32

// Digest returns a short hash of arguments for use in keys: the first DigestLen hexadecimal digits
// of their [FullDigest].
func Digest(arguments string) string { return FullDigest(arguments)[:DigestLen] }

// FullDigest returns the SHA-256 of arguments in 64 hexadecimal digits.
func FullDigest(arguments string) string {
	sum := sha256.Sum256([]byte(arguments))
	return hex.EncodeToString(sum[:])
}

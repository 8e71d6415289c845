package httpapi

import (
	"context"
	"slices"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// ThreadHeader is the header in which requests of model APIs name the thread that they continue.
const ThreadHeader = "X-Thread"

// Thread returns a thread that the caller may use: read, continue, fork, export, change and delete.
// It fails with [journal.ErrNoThread] if the tenant has no such thread, or if the caller has the
// token of an end user that may not use the thread; see [Caller.OwnsThread]. A handler of a request
// that names a thread, or a run of a thread by its response id, must call Thread before it uses the
// thread.
func (c *Caller) Thread(ctx context.Context, id string) (*store.Thread, error) {
	h, err := c.Tenant.Thread(ctx, id)
	if err == nil && !c.OwnsThread(h) {
		return nil, NewProblem(api.CodeNotFound, "thread %s: %v", id, journal.ErrNoThread).WithCause(journal.ErrNoThread)
	}
	return h, err
}

// OwnsThread reports whether the caller may use a thread of its tenant. Callers without a token may
// use any thread. A token gives access only to threads of its subject and its agents: to its thread
// if it names one, and otherwise to all of them if its field Threads is set.
func (c *Caller) OwnsThread(h *store.Thread) bool {
	k := c.Token
	switch {
	case k == nil:
		return true
	case h.Subject != k.Subject || h.Agent != "" && !c.ownsAgent(store.AgentOf(h.Agent)):
		return false
	case k.Thread != "":
		return h.ID == k.Thread
	}
	return k.Threads
}

// CheckNewThread fails if the caller may not create the thread h. Every request that creates a thread
// calls it first, also if the new thread is a fork. If the caller has the token of an end user,
// CheckNewThread sets the thread's subject to the token's.
func (c *Caller) CheckNewThread(ctx context.Context, h *store.Thread) error {
	k := c.Token
	switch {
	case k == nil:
		return nil
	case !k.Threads:
		return NewProblem(api.CodeForbidden, "the token does not allow to create threads")
	case h.Subject != "" && h.Subject != k.Subject:
		return NewProblem(api.CodeForbidden, "the token is for another subject; omit subject")
	case len(h.Metadata) > 0:
		return NewProblem(api.CodeForbidden, "a token sets no metadata; omit it")
	case h.Agent == "":
		return NewProblem(api.CodeInvalid, "agent is missing; the token is for %q", k.Agents)
	case !slices.Contains(k.Agents, h.Agent):
		return NewProblem(api.CodeForbidden, "the token is not for agent %.80q; it is for %q", h.Agent, k.Agents)
	}
	h.Subject = k.Subject
	return c.Tenant.CheckUnusedThreads(ctx, k.Subject)
}

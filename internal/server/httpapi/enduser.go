package httpapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// KindToken is the kind of an actor who uses the token of an end user.
const KindToken = "token"

// endUserRoutes holds the operations to which tokens of end users give access. The function reports
// whether a token may call the operation. If it is nil, all tokens may. All other operations reject
// tokens. The handlers of these operations show and change only runs and threads of the token's
// subject.
var endUserRoutes = map[string]func(*store.Token) bool{
	"create-run":           nil,
	"get-run":              nil,
	"run-events":           nil,
	"cancel-run":           nil,
	"agui":                 nil,
	"chat-completions":     nil,
	"responses":            nil,
	"messages":             nil,
	"create-thread":        func(k *store.Token) bool { return k.Threads },
	"list-threads":         func(k *store.Token) bool { return k.Threads },
	"get-thread":           func(k *store.Token) bool { return k.Threads || k.Thread != "" },
	"list-thread-messages": func(k *store.Token) bool { return k.Threads || k.Thread != "" },
}

// endUserScopes are the scopes of all tokens of end users; endUserRoutes restricts them.
var endUserScopes = ScopeNames([]Scope{RunsRead, RunsWrite})

// endUser authenticates the token of an end user. It accepts a token only from pages of its tenant's
// origins, and from clients other than browsers.
func (rt *Router) endUser(w http.ResponseWriter, r *http.Request, shown string) (*Caller, error) {
	k, info, err := rt.store.AuthenticateToken(r.Context(), shown)
	if err != nil {
		return nil, err
	}
	c := &Caller{
		Key:    &store.Key{Tenant: k.Tenant, Scopes: endUserScopes},
		Token:  k,
		Actor:  Actor{KindToken, k.ID, k.Subject},
		Tenant: rt.store.Tenant(k.Tenant),
		Info:   info,
	}
	rt.found(r, c)
	return c, rt.allowOrigin(w, r, c.Tenant)
}

// allowsToken reports whether the token of an end user may call a route.
func (r *Route) allowsToken(k *store.Token) bool {
	may, listed := endUserRoutes[r.ID]
	return listed && (may == nil || may(k))
}

// EndUser returns the end user of the caller's token. It returns the zero value for other callers.
func (c *Caller) EndUser() journal.EndUser {
	if c.Token == nil {
		return journal.EndUser{}
	}
	return journal.EndUser{Subject: c.Token.Subject, Token: c.Token.ID}
}

// allowsAgent reports whether the caller's token gives access to an agent. It compares references
// without parsing them: a token for clerk is not valid for clerk@3.
func (c *Caller) allowsAgent(ref *store.AgentRef) bool {
	return slices.Contains(c.Token.Agents, ref.String())
}

// RequireAgent returns an error if the caller has a token of an end user that does not give access to
// the agent.
func (c *Caller) RequireAgent(ref *store.AgentRef) error {
	if c.Token == nil || c.allowsAgent(ref) {
		return nil
	}
	return NewProblem(api.CodeForbidden, "the token is not for agent %.80q; it is for %q", ref.String(), c.Token.Agents)
}

// ownsAgent reports whether the caller's token gives access to at least one version of the agent with
// the given name.
func (c *Caller) ownsAgent(name string) bool {
	return slices.ContainsFunc(c.Token.Agents, func(text string) bool { return store.AgentOf(text) == name })
}

// Run returns one of the runs that the caller may see: any run of its tenant or, with the token of an
// end user, a run of the token's subject, agents and thread. It fails with [journal.ErrNoRun] if the
// caller may not see the run.
func (c *Caller) Run(ctx context.Context, id string) (*journal.RunInfo, error) {
	info, err := c.Tenant.Run(ctx, id)
	if err == nil && c.Token != nil && (info.Subject != c.Token.Subject || !c.ownsAgent(info.Agent) || info.Parent != "" ||
		c.Token.Thread != "" && info.Thread != c.Token.Thread) {
		return nil, NewProblem(api.CodeNotFound, "run %s: %v", id, journal.ErrNoRun).WithCause(journal.ErrNoRun)
	}
	return info, err
}

// CheckRunQuotas fails with a [*store.QuotaError] if the quotas of the caller's tenant, or of its token,
// do not allow it to start a run now. It reserves nothing.
func (c *Caller) CheckRunQuotas(ctx context.Context) error {
	if err := c.Tenant.CheckRunQuotas(ctx); err != nil || c.Token == nil {
		return err
	}
	return c.Tenant.CheckToken(ctx, c.Token.ID)
}

// RequireInput returns an error if the caller has the token of an end user, and an end user may not
// send the messages that start a run. In a thread, only messages of the user are allowed, because the
// agent wrote the others. Outside of threads, messages of the assistant and of tools are also
// allowed, because clients repeat the conversation. Instructions are never allowed.
func (c *Caller) RequireInput(messages []abi.Message, inThread bool) error {
	if c.Token == nil {
		return nil
	}
	for i := range messages {
		role := messages[i].Role
		if role == abi.RoleUser || !inThread && (role == abi.RoleAssistant || role == abi.RoleTool) {
			continue
		}
		return NewProblem(api.CodeForbidden, "messages[%d] has the role %.40q, which a token does not allow here", i, role)
	}
	return nil
}

package threads

import (
	"context"
	"log/slog"
	"strings"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Threads serves the routes for threads.
type Threads struct {
	Store     store.Store
	Runs      *runs.Service
	Admission *admission.Controller
	Timeouts  *httpapi.Timeouts
	Logger    *slog.Logger
}

type (
	// ThreadPath is embedded in inputs. It has the path parameter "thread".
	ThreadPath struct {
		Thread string `path:"thread" pattern:"^thr_[A-Za-z0-9_-]{1,80}$" doc:"The thread's id."`
	}
	threadOutput      struct{ Body *api.Thread }
	createThreadInput struct{ Body api.CreateThread }
	updateThreadInput struct {
		ThreadPath
		Body api.ThreadUpdate
	}
	listThreadsInput struct {
		Agent    string `query:"agent" maxLength:"63" doc:"Only threads of this agent."`
		Subject  string `query:"subject" maxLength:"200" doc:"Only threads of this end user."`
		Metadata string `query:"metadata" maxLength:"600" doc:"Only threads whose metadata has this entry: its name, a colon and its value."`
		Limit    int    `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"Maximum number of threads."`
		httpapi.CursorInput
	}
	listThreadsOutput struct {
		Body struct {
			Threads []*api.Thread `json:"threads" nullable:"false"`
			httpapi.ListOutput
		}
	}
)

// Routes registers the endpoints that manage threads.
func (x *Threads) Routes(rt *httpapi.Router) {
	const tag, all, one = "threads", "/v1/threads", "/v1/threads/{thread}"
	httpapi.Register(rt, httpapi.Route{
		ID:      "create-thread",
		Method:  "POST",
		Path:    all,
		Scope:   httpapi.RunsWrite,
		Tag:     tag,
		Status:  201,
		Summary: "Create a thread",
		About:   "POST /v1/runs with its id in thread continues it.",
	}, x.create)
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-threads",
		Method:  "GET",
		Path:    all,
		Scope:   httpapi.RunsRead,
		Tag:     tag,
		Summary: "List threads, newest first",
		About:   httpapi.AboutLists,
	}, x.list)
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-thread",
		Method:  "GET",
		Path:    one,
		Scope:   httpapi.RunsRead,
		Tag:     tag,
		Summary: "Show a thread",
	}, x.get)
	httpapi.Register(rt, httpapi.Route{
		ID:      "update-thread",
		Method:  "PATCH",
		Path:    one,
		Scope:   httpapi.RunsWrite,
		Tag:     tag,
		Summary: "Change the title, metadata, agent or concurrency of a thread",
	}, x.update)
	httpapi.Register(rt, httpapi.Route{
		ID:      "delete-thread",
		Method:  "DELETE",
		Path:    one,
		Scope:   httpapi.RunsWrite,
		Tag:     tag,
		Summary: "Delete a thread with its messages and runs",
		About:   "A thread with a run in progress is not deleted: cancel the run first. Paused and queued runs are deleted.",
	}, x.delete)
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-thread-messages",
		Method:  "GET",
		Path:    one + "/messages",
		Scope:   httpapi.RunsRead,
		Tag:     tag,
		Large:   true,
		Summary: "List the messages of a thread, oldest first",
		About: `The pages show the thread as it was when the first one was read. The messages of a run are part of the
thread when the run has ended.`,
	}, x.messages)
	httpapi.Register(rt, httpapi.Route{
		ID:      "fork-thread",
		Method:  "POST",
		Path:    one + "/fork",
		Scope:   httpapi.RunsWrite,
		Tag:     tag,
		Status:  201,
		Summary: "Fork a thread: create one with copies of its messages",
		About: `The fork begins with the messages of the thread, or with those up to a message or a finished run. It
has the agent, the title, the metadata, the concurrency and the subject of the thread, unless the request sets others.
Runs are not copied; both threads then continue independently.`,
	}, x.fork)
	rt.Raw(httpapi.Route{
		ID:      "export-thread",
		Method:  "GET",
		Path:    one + "/export",
		Scope:   httpapi.RunsRead,
		Tag:     tag,
		Summary: "Export a thread with its runs and messages as lines of JSON",
		About: `The first line has the thread; the lines after it have its runs, the oldest first, and then its messages in
order. Each message names the run that added it. The messages are those that the thread had when the export began; the
last line is {"end":true}, which an export that failed does not have.`,
	}, describeExport, x.export)
	x.retentionRoutes(rt)
}

// showThread returns the API's form of a thread. For end users, it omits the metadata.
func showThread(c *httpapi.Caller, h *store.Thread) *api.Thread {
	out := &api.Thread{
		ID:          h.ID,
		Agent:       h.Agent,
		Title:       h.Title,
		Metadata:    h.Metadata,
		Concurrency: string(runs.ConcurrencyOf(h)),
		Subject:     h.Subject,
		Parent:      h.Parent,
		Messages:    h.Messages,
		Bytes:       h.Bytes,
		Run:         h.Run,
		Created:     h.Created.UTC(),
		Updated:     h.Updated.UTC(),
	}
	if c.Token != nil {
		out.Metadata = nil
	}
	return out
}

func (x *Threads) create(ctx context.Context, c *httpapi.Caller, in *createThreadInput) (*threadOutput, error) {
	b := &in.Body
	h := &store.Thread{
		ID:          store.NewThreadID(),
		Subject:     b.Subject,
		Agent:       b.Agent,
		Title:       b.Title,
		Titled:      b.Title != "",
		Concurrency: b.Concurrency,
		Metadata:    b.Metadata,
	}
	if err := checkFields(&b.Title, &b.Subject, b.Metadata); err != nil {
		return nil, err
	}
	if err := c.CheckNewThread(ctx, h); err != nil {
		return nil, err
	}
	if err := checkAgent(ctx, c, &b.Agent); err != nil {
		return nil, err
	}
	created, err := c.Tenant.CreateThread(ctx, h)
	if err != nil {
		return nil, err
	}
	return &threadOutput{showThread(c, created)}, nil
}

func (x *Threads) list(ctx context.Context, c *httpapi.Caller, in *listThreadsInput) (*listThreadsOutput, error) {
	page, err := in.Page(httpapi.ListThreads, c.Tenant.ID(), in.Limit)
	if err != nil {
		return nil, err
	}
	f := &store.ThreadFilter{Agent: in.Agent, Subject: in.Subject, Page: page}
	if c.Token != nil {
		f.Subject = c.Token.Subject
		if in.Metadata != "" { // the answer would reveal the metadata
			return nil, httpapi.NewProblem(api.CodeForbidden, "a token does not select threads by their metadata; omit metadata")
		}
	}
	if in.Metadata != "" {
		var ok bool
		if f.Name, f.Value, ok = strings.Cut(in.Metadata, ":"); !ok || f.Name == "" {
			return nil, httpapi.NewParameterProblem("metadata", "want a name, a colon and a value")
		}
	}
	list, next, err := c.Tenant.Threads(ctx, f)
	if err != nil {
		return nil, err
	}
	out := &listThreadsOutput{}
	out.Body.Threads = []*api.Thread{}
	out.Body.SetNext(httpapi.ListThreads, c.Tenant.ID(), next)
	for i := range list {
		if c.OwnsThread(&list[i]) {
			out.Body.Threads = append(out.Body.Threads, showThread(c, &list[i]))
		}
	}
	return out, nil
}

func (x *Threads) get(ctx context.Context, c *httpapi.Caller, in *ThreadPath) (*threadOutput, error) {
	h, err := c.Thread(ctx, in.Thread)
	if err != nil {
		return nil, err
	}
	return &threadOutput{showThread(c, h)}, nil
}

func (x *Threads) update(ctx context.Context, c *httpapi.Caller, in *updateThreadInput) (*threadOutput, error) {
	b := &in.Body
	if err := checkFields(b.Title, nil, b.Metadata); err != nil {
		return nil, err
	}
	if err := checkAgent(ctx, c, b.Agent); err != nil {
		return nil, err
	}
	if _, err := c.Thread(ctx, in.Thread); err != nil {
		return nil, err
	}
	h, err := c.Tenant.UpdateThread(ctx, in.Thread, &store.ThreadUpdate{
		Title: b.Title, Agent: b.Agent, Concurrency: b.Concurrency, Metadata: b.Metadata})
	if err != nil {
		return nil, err
	}
	return &threadOutput{showThread(c, h)}, nil
}

func (x *Threads) delete(ctx context.Context, c *httpapi.Caller, in *ThreadPath) (*struct{}, error) {
	if _, err := c.Thread(ctx, in.Thread); err != nil {
		return nil, err
	}
	return nil, c.Tenant.DeleteThread(ctx, in.Thread)
}

// checkAgent fails if an agent is named and does not exist.
func checkAgent(ctx context.Context, c *httpapi.Caller, name *string) error {
	if name == nil || *name == "" {
		return nil
	}
	ref, err := agents.ParseRef(*name, 0)
	if err != nil {
		return err
	}
	if !store.Name.MatchString(ref.Name) {
		return httpapi.NewProblem(api.CodeInvalid, "agent is %.80q, which is no name of an agent", *name)
	}
	_, err = c.Tenant.AgentOf(ctx, ref.AgentRef)
	return err
}

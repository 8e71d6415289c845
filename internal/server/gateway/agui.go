package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/agui"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/server/sse"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

// AGUI serves clients of the AG-UI protocol.
type AGUI struct {
	Runs      *runs.Service
	Admission *admission.Controller
	Timeouts  *httpapi.Timeouts
}

// Routes registers the endpoints of the AG-UI protocol.
func (x *AGUI) Routes(rt *httpapi.Router) {
	rt.Raw(httpapi.Route{
		ID:      "agui",
		Method:  "POST",
		Path:    "/v1/agents/{agent}/agui",
		Scope:   httpapi.RunsWrite,
		Tag:     "ag-ui",
		Body:    agui.MaxInput,
		Input:   true,
		Summary: "Run an agent over the AG-UI protocol",
		About: `The body is AG-UI's RunAgentInput; the response is a stream of AG-UI events. Tools in the input run in the
front end. A run that waits for an answer, or for the result of such a tool, resumes when the same thread sends
resume or the tool's message.

threadId is the id of a thread, or any other text of up to 200 bytes, for which the first request of an agent creates a
thread. A run continues the stored messages of the thread; of the input's messages, only those after the last one that
the thread has are new. An input whose last known message is an earlier one replaces the messages after that.`,
	}, func(op *huma.Operation, _ huma.Registry) {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name:        "agent",
			In:          "path",
			Required:    true,
			Schema:      &huma.Schema{Type: "string"},
			Description: "The agent's name, agent@version or agent@alias.",
		})
		runs.DescribeKey(op)
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json": {
				Schema: objectSchema(
					"AG-UI's RunAgentInput.",
					map[string]string{"threadId": "string", "runId": "string", "messages": "array"},
					"tools",
					"resume",
					"state",
					"context",
					"forwardedProps",
				),
			}}}
		op.Responses["200"] = &huma.Response{
			Description: "AG-UI events",
			Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}},
		}
	}, x.run)
}

// run runs an agent for one turn of a thread.
func (x *AGUI) run(w http.ResponseWriter, req *http.Request, c *httpapi.Caller) error {
	ref, err := agents.ParseRef(req.PathValue("agent"), 0)
	if err != nil {
		return err
	}
	if !store.Name.MatchString(ref.Name) {
		return httpapi.NewProblem(api.CodeInvalid,
			"the agent's name is %.80q; want up to 63 lowercase letters, digits, dots, dashes and underscores", ref.Name)
	}
	if err := c.RequireAgent(&ref.AgentRef); err != nil {
		return err
	}
	b, err := httpapi.ReadJSONBody(req)
	if err != nil {
		return err
	}
	var in *agui.Input
	if err := c.Parse(req.Context(), x.Admission, len(b), func() error {
		if in, err = agui.ParseInput(b); err != nil {
			return httpapi.NewProblem(api.CodeInvalid, "%v", err)
		}
		return nil
	}); err != nil {
		return err
	}
	if _, err := c.Tenant.AgentOf(req.Context(), ref.AgentRef); err != nil {
		return err
	}
	key, err := runs.KeyOf(req, b)
	if err != nil {
		return err
	}
	l, known, err := x.launch(req.Context(), c, ref, req.PathValue("agent"), in, key)
	if err != nil {
		return err
	}
	if known != nil { // the run's AG-UI events are not stored
		return httpapi.NewProblem(api.CodeConflict,
			"an earlier request with this Idempotency-Key did this; GET /v1/runs/%s/events has the events", known.Run.ID)
	}
	c.ReleaseBody()
	l.Attached.Store(true)
	defer l.Follow()()
	x.stream(w, req, c, l)
	return nil
}

// launch starts the run of a turn, or resumes it if it waits for answers. If an earlier request
// with the same key already did so, l is nil, and known describes that request.
func (x *AGUI) launch(
	ctx context.Context,
	c *httpapi.Caller,
	ref agents.Ref,
	name string, // the agent as the request names it
	in *agui.Input,
	key runs.Key,
) (l *runs.ActiveRun, known *runs.Earlier, err error) {
	if x.Runs.KnowsKey(ctx, c, key) {
		input := agent.Input{RequestDigest: key.Digest()}
		return x.Runs.BeginOnce(ctx, c, ref, input, runs.Client{}, key)
	}
	h, err := threadOf(ctx, c, ref.Name, name, in.ThreadID)
	if err != nil {
		return nil, nil, err
	}
	ref.Thread = h.ID
	enc := agui.NewEncoder(agui.Options{Thread: in.ThreadID, Run: in.RunID, Messages: in.Raw})
	client := runs.Client{Tools: in.Tools, Encoder: runs.ForEndUser(c, enc)}
	answers, err := x.pendingAnswers(ctx, c, ref.Name, h, in)
	if err != nil {
		return nil, nil, err
	}
	if len(answers) > 0 {
		return x.Runs.ResumeOnce(ctx, c, h.Run, answers, client, key)
	}
	if len(in.Messages) == 0 {
		return nil, nil, httpapi.NewProblem(api.CodeInvalid, "messages is empty; want a conversation")
	}
	stored, err := c.Tenant.MessageIDs(ctx, h.ID, h.Version)
	if err != nil {
		return nil, nil, err
	}
	var messages []abi.Message
	client.Turn, messages = turnOf(h, stored, in.Messages)
	for i := range messages {
		m := &messages[i]
		m.Origin, m.Extra, m.Labels, m.PartLabels = "", nil, nil, nil
	}
	input := agent.Input{RunID: journal.NewRunID(), Messages: messages, RequestDigest: key.Digest()}
	return x.Runs.BeginOnce(ctx, c, ref, input, client, key)
}

// pendingAnswers returns the input's answers to the interrupts of the paused run of a thread. It
// returns none in two cases: if no run of the agent is paused and the input has no answers, and if
// the input does not answer the paused run and the thread allows other runs. Otherwise it fails with
// a problem.
func (x *AGUI) pendingAnswers(
	ctx context.Context,
	c *httpapi.Caller,
	name string,
	h *store.Thread,
	in *agui.Input,
) (map[string]json.RawMessage, error) {
	if h.Run != "" {
		info, err := c.Run(ctx, h.Run)
		if err != nil {
			return nil, err
		}
		if info.Status == journal.StatusPaused && info.Agent == name {
			answers, err := answersOf(info, in)
			if len(answers) == 0 && in.Answers == nil && runs.ConcurrencyOf(h) != runs.Reject {
				return nil, nil
			}
			return answers, err
		}
	}
	if in.Answers != nil {
		return nil, httpapi.NewProblem(api.CodeConflict, "no interrupt is pending in thread %.80q", in.ThreadID)
	}
	return nil, nil
}

// answersOf returns the answers to a run's interrupts: the client's answers and the results of its
// tools. It fails if the input has neither.
func answersOf(info *journal.RunInfo, in *agui.Input) (map[string]json.RawMessage, error) {
	answers := map[string]json.RawMessage{}
	for id, a := range in.Answers {
		answers[id] = a
	}
	results := map[string]abi.Message{}
	for _, m := range in.Messages {
		if m.Role == abi.RoleTool {
			results[m.ToolCallID] = m
		}
	}
	for _, p := range info.Pending {
		if _, given := answers[p.ID]; given || !toolcall.IsClient(p) {
			continue
		}
		if m, ok := results[p.Call.ID]; ok {
			_, failed := in.Errors[p.Call.ID]
			b, err := abijson.Marshal(abi.Result{Content: m.Content, IsError: failed})
			if err != nil {
				return nil, err
			}
			answers[p.ID] = b
		}
	}
	if len(answers) == 0 {
		return nil, httpapi.NewProblem(api.CodeConflict, "run %s of this thread waits for answers to %s; resume with them",
			info.ID, strings.Join(pendingIDs(info.Pending), ", "))
	}
	return answers, nil
}

func pendingIDs(list []abi.Pending) (ids []string) {
	for _, p := range list {
		ids = append(ids, p.ID)
	}
	return ids
}

// stream writes the events of a run in progress on this server, until the run is over here or the
// client disconnects. The stream ends early if the client is too slow and needs events that are no
// longer in memory, because the protocol has no way to reconnect. It also ends early if the run is
// over and the tenant's responses leave no room for the rest of its events.
func (x *AGUI) stream(w http.ResponseWriter, req *http.Request, c *httpapi.Caller, l *runs.ActiveRun) {
	s := sse.New(w, x.Timeouts.Write)
	s.Retry()
	after := l.From
	for s.Err == nil {
		lines, changed, over, ok := l.Since(after)
		if !ok && len(lines) > 0 {
			return
		}
		if size := max(runs.Size(lines), l.Retained()); c.Response.Set(size) != nil {
			if over || c.Response.Wait(req.Context(), size, s.Wait) != nil {
				return
			}
			continue
		}
		for _, line := range lines {
			for _, b := range line.Encoded {
				s.Send([]byte("data: "), b, []byte("\n\n"))
			}
			after = line.Seq
		}
		if over && len(lines) == 0 {
			return
		}
		if len(lines) > 0 {
			continue
		}
		if !s.Wait(req.Context(), changed) {
			return
		}
	}
}

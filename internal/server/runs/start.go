package runs

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

func describeStart(op *huma.Operation, registry huma.Registry) {
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"application/json": {Schema: registry.Schema(reflect.TypeFor[api.StartRun](), true, "StartRun")}}}
	DescribeKey(op)
	run := registry.Schema(reflect.TypeFor[api.Run](), true, "Run")
	op.Responses["202"] = &huma.Response{
		Description: "The run",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: run}},
	}
	op.Responses["200"] = &huma.Response{
		Description: "The events of the run",
		Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: httpapi.EventSchema(registry)}},
	}
}

// decodeStart parses and checks a request body.
func decodeStart(b []byte, in *api.StartRun) error {
	unknown, err := abijson.Decode(b, in)
	if err != nil {
		return httpapi.NewProblem(api.CodeInvalid, "the body is not valid: %v", err)
	}
	if len(unknown) > 0 {
		return httpapi.NewProblem(
			api.CodeInvalid,
			"the body has the unknown field %.80q; want agent with input or messages, and version, metadata, thread, concurrency and disconnect if need be; or run with answers",
			unknown[0],
		)
	}
	return checkStart(in)
}

// start starts or resumes a run, and responds with the run or its events.
func (r *Service) start(w http.ResponseWriter, req *http.Request, c *httpapi.Caller) error {
	b, err := httpapi.ReadJSONBody(req)
	if err != nil {
		return err
	}
	var in api.StartRun
	var messages []abi.Message
	err = c.Parse(req.Context(), r.admission, len(b), func() error {
		if err := decodeStart(b, &in); err != nil {
			return err
		}
		messages, err = conversation(&in)
		return err
	})
	if in.Run == "" { // the scope of the route's Or only answers interrupts
		err = cmp.Or(c.Require(httpapi.RunsWrite), err)
	}
	if err != nil {
		return err
	}
	key, err := KeyOf(req, b)
	if err != nil {
		return err
	}
	streams := strings.Contains(req.Header.Get("Accept"), "text/event-stream")
	l, known, err := r.launch(req.Context(), c, &in, messages, key)
	if err != nil {
		return err
	}
	c.ReleaseBody()
	id, after := "", int64(0)
	if l != nil {
		id = l.ID
		if in.Run != "" {
			after = l.From
		}
		l.Attached.Store(in.Disconnect == "cancel" && streams)
	} else {
		id, after = known.Run.ID, known.After
	}
	w.Header().Set("Location", "/v1/runs/"+id)
	if streams {
		return r.respondEvents(w, req, c, id, after)
	}
	return r.respondRun(w, req, c, id, l)
}

var threadID = regexp.MustCompile(`^thr_[A-Za-z0-9_-]{1,80}$`)

// checkStart rejects a request in which fields are missing or contradict each other, or disconnect
// has an unknown value.
func checkStart(in *api.StartRun) error {
	switch {
	case in.Run != "" && (in.Agent != "" || in.Input != "" || in.Messages != nil || in.Metadata != nil || in.Thread != ""):
		return httpapi.NewProblem(api.CodeInvalid,
			"run resumes an existing run: remove agent, input, messages, metadata and thread")
	case in.Run != "" && len(in.Answers) == 0:
		return httpapi.NewProblem(api.CodeInvalid, "the run waits for answers: set answers, by the ids of its interrupts")
	case in.Run != "":
		return nil
	case in.Thread == "" && in.Concurrency != "":
		return httpapi.NewProblem(api.CodeInvalid, "concurrency needs thread")
	case in.Thread != "" && !threadID.MatchString(in.Thread):
		return httpapi.NewProblem(api.CodeInvalid, "thread is no id of a thread; GET /v1/threads lists them")
	case !slices.Contains([]Concurrency{"", Reject, Queue, Cancel}, Concurrency(in.Concurrency)):
		return httpapi.NewProblem(api.CodeInvalid, "concurrency is %.40q; want reject, queue or cancel", in.Concurrency)
	case in.Agent == "" && in.Thread == "":
		return httpapi.NewProblem(api.CodeInvalid, "agent is missing; GET /v1/agents lists them")
	case len(in.Answers) > 0:
		return httpapi.NewProblem(api.CodeInvalid, "answers needs run")
	case (in.Input == "") == (len(in.Messages) == 0):
		return httpapi.NewProblem(api.CodeInvalid, "want either input or messages")
	case in.Disconnect != "" && in.Disconnect != "cancel" && in.Disconnect != "continue":
		return httpapi.NewProblem(api.CodeInvalid, "disconnect is %.40q; want continue or cancel", in.Disconnect)
	}
	return nil
}

// conversation returns the run's initial messages.
func conversation(in *api.StartRun) ([]abi.Message, error) {
	if in.Input != "" {
		return []abi.Message{abi.User(in.Input)}, nil
	}
	out := make([]abi.Message, len(in.Messages))
	for i, raw := range in.Messages {
		m := &out[i]
		_, err := abijson.Decode(raw, m)
		if err == nil {
			err = contract.CheckMessage(m)
		}
		if err != nil {
			return nil, httpapi.NewProblem(api.CodeInvalid, "messages[%d]: %v", i, err)
		}
		m.ID, m.Origin, m.Extra, m.Labels, m.PartLabels = "", "", nil, nil, nil // the host sets these
	}
	return out, nil
}

// respondEvents responds with a stream of the events of a run with numbers greater than after.
func (r *Service) respondEvents(
	w http.ResponseWriter,
	req *http.Request,
	c *httpapi.Caller,
	id string,
	after int64,
) error {
	info, err := r.Find(req.Context(), c, id)
	if err != nil {
		return err
	}
	r.stream(w, req, r.Follow(c, info, after))
	return nil
}

// respondRun responds with the run. It omits the run's output if the response would exceed the limit
// of the tenant's responses.
func (r *Service) respondRun(
	w http.ResponseWriter,
	req *http.Request,
	c *httpapi.Caller,
	id string,
	l *ActiveRun,
) error {
	info, err := r.Find(req.Context(), c, id)
	if errors.Is(err, journal.ErrNoRun) && l != nil && l.failure() != nil {
		return fmt.Errorf("start run %s: %w", id, l.failure())
	}
	if err != nil {
		return err
	}
	var b []byte
	show := func() error {
		shown, err := r.showDetails(req.Context(), c, info)
		if err != nil {
			return err
		}
		if b, err = encodeRun(shown); err != nil || c.Response.Set(cap(b)) == nil {
			return err
		}
		shown.Output = "" // a failure would make the client start another run
		b, err = encodeRun(shown)
		c.Response.Force(cap(b))
		return err
	}
	if l != nil {
		err = show()
	} else { // the request is repeated, and the run may have a large output
		err = r.admission.Read(req.Context(), c.Key.Tenant, true, show)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, err = w.Write(b)
	return err
}

// encodeRun returns a run as a line of JSON.
func encodeRun(shown *api.Run) ([]byte, error) {
	b, err := abijson.Marshal(shown)
	return append(b, '\n'), err
}

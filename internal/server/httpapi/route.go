package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/agent-runner/agent-runner/host/api"
)

// A Route is an operation of the API.
type Route struct {
	ID      string // such as "create-tenant"; the operationId in the document
	Method  string
	Path    string
	Scope   Scope // required scope of the key; Public for routes without a key
	Or      Scope // a scope that is enough for a part of what the route does; the handler checks which
	Tag     string
	Summary string
	About   string // the long description; optional
	Body    int64  // limit of the body in bytes; the default is 1 MiB
	Status  int    // status of a success; the default is 200, or 204 without a body
	// Input marks a body that is the input of a run. The tenant's quota input_bytes also limits its
	// size.
	Input bool
	// Control marks a request that controls a run or asks for its state. Such requests have their
	// own rate limit, and do not wait for requests that read lists.
	Control bool
	// Large marks a GET request whose response may be large. The request fails before it reads data
	// if the responses in memory have reached a limit. A GET request without Large fails after it
	// has read its data, if the response does not fit.
	Large bool
	// Streamed marks a body that is never completely in memory.
	Streamed bool
}

// bodyTimeout limits the time in which a JSON body arrives.
const bodyTimeout = 30 * time.Second

// Extensions of the OpenAPI document, which tests read.
const (
	scopeExtension = "x-scope"
	bodyExtension  = "x-max-body"
)

// defaultInputBytes limits the input of a run unless the tenant's quota does. Models accept about
// as much in one request. The input is parsed, checked, stored and sent to modules and models in
// one piece, which delays other runs.
const defaultInputBytes = 1 << 20

// bodyLimit returns the maximum size of the caller's body, in bytes.
func (r *Route) bodyLimit(c *Caller) int64 {
	if !r.Input {
		return r.Body
	}
	return min(r.Body, cmp.Or(c.Info.Quota.InputBytes, defaultInputBytes))
}

// tooLarge returns the error for a body that exceeds bodyLimit: a [*http.MaxBytesError] if the
// limit is the route's, or else a problem that names the tenant's quota.
func (r *Route) tooLarge(c *Caller) error {
	limit := r.bodyLimit(c)
	if limit == r.Body {
		return &http.MaxBytesError{Limit: limit}
	}
	p := NewProblem(
		api.CodeTooLarge,
		"the body has more than %d bytes, the tenant's quota input_bytes; send less, or ask the operator for a larger quota",
		limit,
	)
	p.Quota = "input_bytes"
	return p
}

// operation returns the route as a huma operation. It panics if the route has no known scope.
func (rt *Router) operation(r Route) huma.Operation {
	if r.Scope == "" || r.Scope != Public && r.Scope != SignedIn && !r.Scope.Known() {
		panic(fmt.Sprintf("route %s %s: it declares no scope; set Public if it needs no key", r.Method, r.Path))
	}
	if r.Body == 0 {
		r.Body = 1 << 20
	}
	op := huma.Operation{
		OperationID:     r.ID,
		Method:          r.Method,
		Path:            r.Path,
		Tags:            []string{r.Tag},
		Summary:         r.Summary,
		Description:     r.About,
		MaxBodyBytes:    r.Body,
		BodyReadTimeout: bodyTimeout,
		DefaultStatus:   r.Status,
		Extensions:      map[string]any{scopeExtension: string(r.Scope), bodyExtension: r.Body},
		Responses: map[string]*huma.Response{
			"4XX": rt.problemResponse("What is wrong with the request"),
			"5XX": rt.problemResponse("The server failed"),
		},
		Security: []map[string][]string{},
	}
	if r.Scope != Public {
		op.Security = []map[string][]string{{"key": {}}}
	}
	op.Middlewares = huma.Middlewares{rt.guard(r)}
	return op
}

// problemResponse returns the description of a response that is a problem.
func (rt *Router) problemResponse(about string) *huma.Response {
	schema := rt.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	return &huma.Response{Description: about, Content: map[string]*huma.MediaType{
		"application/problem+json": {
			Schema: schema,
			Example: map[string]any{
				"type": api.ProblemType + api.CodeNotFound, "title": "Not found", "status": http.StatusNotFound,
				"detail": "run run_x: no such run", "instance": "urn:agent-runner:request:req_x",
			},
		},
	}}
}

// Register registers a handler whose input and output are JSON. The output of a GET request is
// encoded while the request holds its slot for reading, and written afterwards.
func Register[I, O any](rt *Router, r Route, handle func(ctx context.Context, c *Caller, in *I) (*O, error)) {
	op := rt.operation(r)
	defer rt.checkParameters(r)
	defer rt.markDeprecated(r)
	body := bodyField(reflect.TypeFor[O]())
	huma.Register(rt.api, op, func(ctx context.Context, in *I) (*O, error) {
		c := callerOf(ctx)
		var out *O
		if err := rt.read(ctx, c, &r, func() (err error) {
			if out, err = handle(ctx, c, in); err != nil || out == nil || body == nil {
				return err
			}
			if a := recorderOf(ctx); a != nil && c != nil {
				return a.encode(&r, reflect.ValueOf(out).Elem().FieldByIndex(body))
			}
			return nil
		}); err != nil {
			return nil, ProblemOf(endOf(ctx, err))
		}
		return out, nil
	})
}

// checkParameters panics if a path parameter has no field in the route's input. huma leaves fields
// of unexported embedded structs empty, and the empty string is the id of the operator's tenant.
func (rt *Router) checkParameters(r Route) {
	item := rt.api.OpenAPI().Paths[r.Path]
	for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
		if op == nil || op.Method != r.Method {
			continue
		}
		for _, part := range strings.Split(r.Path, "/") {
			name, ok := strings.CutPrefix(strings.TrimSuffix(part, "}"), "{")
			if ok && !slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.In == "path" && p.Name == name }) {
				panic(
					fmt.Sprintf("route %s %s: its input has no field for {%s}; embedded structs have to be exported",
						r.Method, r.Path, name),
				)
			}
		}
	}
}

// markDeprecated marks deprecated parameters in the document. huma only marks their schemas.
func (rt *Router) markDeprecated(r Route) {
	item := rt.api.OpenAPI().Paths[r.Path]
	for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
		if op == nil {
			continue
		}
		for _, p := range op.Parameters {
			p.Deprecated = p.Deprecated || p.Schema != nil && p.Schema.Deprecated
		}
	}
}

// Raw registers a handler that reads the request and writes the response itself. The route limits
// the size of the body. The router sets the body's read deadline from [Timeouts]; the handler can
// change it with [http.ResponseController]. An error that the handler returns before it writes
// becomes a problem; a later one aborts the connection. A handler of large responses reads and
// encodes them in [Caller.Read], and counts them in [Caller.Response]. describe adds parameters,
// bodies and responses to the document.
func (rt *Router) Raw(
	r Route,
	describe func(*huma.Operation, huma.Registry),
	handle func(w http.ResponseWriter, r *http.Request, c *Caller) error,
) {
	op := rt.operation(r)
	r.Body = op.MaxBodyBytes
	if describe != nil {
		describe(&op, rt.api.OpenAPI().Components.Schemas)
	}
	rt.api.OpenAPI().AddOperation(&op)
	rt.checkParameters(r)
	rt.api.Adapter().Handle(&op, rt.api.Middlewares().Handler(op.Middlewares.Handler(func(ctx huma.Context) {
		req, w := humago.Unwrap(ctx)
		req = req.WithContext(ctx.Context())
		c := callerOf(ctx.Context())
		req.Body = http.MaxBytesReader(w, req.Body, r.bodyLimit(c))
		if err := handle(w, req, c); err != nil {
			err = endOf(req.Context(), err)
			if size := (*http.MaxBytesError)(nil); r.Input && errors.As(err, &size) {
				err = r.tooLarge(c)
			}
			if a := recorderOf(req.Context()); a != nil && a.status != 0 {
				setCause(req, err)
				panic(http.ErrAbortHandler) // too late for a problem: the client must notice
			}
			writeProblem(w, req, err)
		}
	})))
}

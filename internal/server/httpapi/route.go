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
)

// A Route is an operation of the API.
type Route struct {
	ID      string // such as create-tenant; clients are named by it
	Method  string
	Path    string
	Scope   Scope // what a key needs; Public for everybody
	Tag     string
	Summary string
	About   string // more about it; may be empty
	Body    int64  // bytes of the body at most; 1 MiB when 0
	Status  int    // of a success; 200, or 204 without a body, when 0
	// Input says that the body is what a run is to read: the tenant's quota may bound it
	// more narrowly than Body does.
	Input bool
	// Control says that the request controls what goes on, or asks for its state: it is not
	// counted with the tenant's other requests, and waits for none of them.
	Control bool
	// Streamed says that the body is never in memory as a whole.
	Streamed bool
}

// bodyTimeout is how long a body of JSON may take to arrive.
const bodyTimeout = 30 * time.Second

// scopeMeta and the others are where the document has what tests go by.
const (
	scopeExtension = "x-scope"
	bodyExtension  = "x-max-body"
)

// defaultInput is how large a run's input is at most where its tenant's quota does not
// say. It is about as much as models read at once: the input is parsed, checked, kept, and
// sent to modules and models as a whole, while the runs of others wait.
const defaultInputBytes = 1 << 20

// most is how many bytes the caller's body may have.
func (r *Route) bodyLimit(c *Caller) int64 {
	if !r.Input {
		return r.Body
	}
	return min(r.Body, cmp.Or(c.Info.Quota.InputBytes, defaultInputBytes))
}

// tooLarge is what a caller is told whose body has more.
func (r *Route) tooLarge(c *Caller) error {
	most := r.bodyLimit(c)
	if most == r.Body {
		return &http.MaxBytesError{Limit: most}
	}
	p := NewProblem(CodeTooLarge, "the body has more than %d bytes, the tenant's quota input_bytes; send less, or ask the operator for a larger quota", most)
	p.Quota = "input_bytes"
	return p
}

// operation is the route as huma has it.
func (rt *Router) operation(r Route) huma.Operation {
	if r.Scope == "" || r.Scope != Public && !r.Scope.Known() {
		panic(fmt.Sprintf("route %s %s: it declares no scope; say Public if it is for everybody", r.Method, r.Path))
	}
	if r.Body == 0 {
		r.Body = 1 << 20
	}
	op := huma.Operation{OperationID: r.ID, Method: r.Method, Path: r.Path, Tags: []string{r.Tag}, Summary: r.Summary, Description: r.About,
		MaxBodyBytes: r.Body, BodyReadTimeout: bodyTimeout, DefaultStatus: r.Status,
		Extensions: map[string]any{scopeExtension: string(r.Scope), bodyExtension: r.Body},
		Responses: map[string]*huma.Response{"default": {Description: "The problem", Content: map[string]*huma.MediaType{
			"application/problem+json": {Schema: rt.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")}}}},
	}
	if r.Scope != Public {
		op.Security = []map[string][]string{{"key": {}}}
	}
	op.Middlewares = huma.Middlewares{rt.guard(r)}
	return op
}

// route registers a handler of JSON.
func Register[I, O any](rt *Router, r Route, handle func(ctx context.Context, c *Caller, in *I) (*O, error)) {
	op := rt.operation(r)
	defer rt.checkParameters(r)
	defer rt.markDeprecated(r)
	huma.Register(rt.api, op, func(ctx context.Context, in *I) (*O, error) {
		c := callerOf(ctx)
		var out *O
		if err := rt.read(ctx, c, &r, func() (err error) {
			out, err = handle(ctx, c, in)
			return err
		}); err != nil {
			return nil, ProblemOf(err)
		}
		return out, nil
	})
}

// checkParameters panics if a part of the path goes nowhere: an input whose
// embedded struct is not exported would have it empty, and an empty tenant is
// the operator.
func (rt *Router) checkParameters(r Route) {
	item := rt.api.OpenAPI().Paths[r.Path]
	for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
		if op == nil || op.Method != r.Method {
			continue
		}
		for _, part := range strings.Split(r.Path, "/") {
			name, ok := strings.CutPrefix(strings.TrimSuffix(part, "}"), "{")
			if ok && !slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.In == "path" && p.Name == name }) {
				panic(fmt.Sprintf("route %s %s: its input has no field for {%s}; embedded structs have to be exported", r.Method, r.Path, name))
			}
		}
	}
}

// markDeprecated marks the deprecated parameters of a route in the document: huma marks
// their schemas alone.
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

// raw registers a handler that has the response and the request for itself: the
// body is bounded and has [bodyTimeout], which it may change with
// [http.ResponseController]. An error that is returned before anything is written
// is answered as a problem. describe adds parameters, bodies and answers to the
// document.
func (rt *Router) Raw(r Route, describe func(*huma.Operation, huma.Registry), handle func(w http.ResponseWriter, r *http.Request, c *Caller) error) {
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
			if size := (*http.MaxBytesError)(nil); r.Input && errors.As(err, &size) {
				err = r.tooLarge(c)
			}
			if a := recorderOf(req.Context()); a != nil && a.status != 0 {
				setCause(req, err) // it is too late to answer
				return
			}
			writeProblem(w, req, err)
		}
	})))
}

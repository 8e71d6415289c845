package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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

// bodyTime is how long a body of JSON may take to arrive.
const bodyTime = 30 * time.Second

// scopeMeta and the others are where the document has what tests go by.
const (
	scopeMeta = "x-scope"
	bodyMeta  = "x-max-body"
)

// defaultInput is how large a run's input is at most where its tenant's quota does not
// say. It is about as much as models read at once: the input is parsed, checked, kept, and
// sent to modules and models as a whole, while the runs of others wait.
const defaultInput = 1 << 20

// most is how many bytes the caller's body may have.
func (r *Route) most(c *Caller) int64 {
	if !r.Input {
		return r.Body
	}
	return min(r.Body, cmp.Or(c.Info.Quota.InputBytes, defaultInput))
}

// tooLarge is what a caller is told whose body has more.
func (r *Route) tooLarge(c *Caller) error {
	most := r.most(c)
	if most == r.Body {
		return &http.MaxBytesError{Limit: most}
	}
	p := problem(codeTooLarge, "the body has more than %d bytes, the tenant's quota input_bytes; send less, or ask the operator for a larger quota", most)
	p.Quota = "input_bytes"
	return p
}

// operation is the route as huma has it.
func (s *Server) operation(r Route) huma.Operation {
	if r.Scope == "" || r.Scope != Public && !r.Scope.known() {
		panic(fmt.Sprintf("route %s %s: it declares no scope; say Public if it is for everybody", r.Method, r.Path))
	}
	if r.Body == 0 {
		r.Body = 1 << 20
	}
	op := huma.Operation{OperationID: r.ID, Method: r.Method, Path: r.Path, Tags: []string{r.Tag}, Summary: r.Summary, Description: r.About,
		MaxBodyBytes: r.Body, BodyReadTimeout: bodyTime, DefaultStatus: r.Status,
		Extensions: map[string]any{scopeMeta: string(r.Scope), bodyMeta: r.Body},
		Responses: map[string]*huma.Response{"default": {Description: "The problem", Content: map[string]*huma.MediaType{
			"application/problem+json": {Schema: s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")}}}},
	}
	if r.Scope != Public {
		op.Security = []map[string][]string{{"key": {}}}
	}
	op.Middlewares = huma.Middlewares{s.guard(r)}
	return op
}

// route registers a handler of JSON.
func route[I, O any](s *Server, r Route, handle func(ctx context.Context, c *Caller, in *I) (*O, error)) {
	op := s.operation(r)
	defer s.checkParameters(r)
	defer s.markDeprecated(r)
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		c := callerOf(ctx)
		var out *O
		if err := s.read(ctx, c, &r, func() (err error) {
			out, err = handle(ctx, c, in)
			return err
		}); err != nil {
			return nil, problemOf(err)
		}
		return out, nil
	})
}

// read calls fn, which answers a request. A request that only reads waits for its turn.
func (s *Server) read(ctx context.Context, c *Caller, r *Route, fn func() error) error {
	if c == nil || r.Method != http.MethodGet {
		return fn()
	}
	return s.admission.Read(ctx, c.Key.Tenant, r.Control, fn)
}

// bodyBytes returns how many bytes of a request's body a route may hold in memory: the request's
// Content-Length, or else all that is allowed.
func (r *Route) bodyBytes(req *http.Request, c *Caller) int64 {
	switch n := req.ContentLength; {
	case r.Streamed || req.Body == nil || req.Body == http.NoBody:
		return 0
	case n >= 0:
		return min(n, r.most(c))
	default:
		return r.most(c)
	}
}

// checkParameters panics if a part of the path goes nowhere: an input whose
// embedded struct is not exported would have it empty, and an empty tenant is
// the operator.
func (s *Server) checkParameters(r Route) {
	item := s.api.OpenAPI().Paths[r.Path]
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
func (s *Server) markDeprecated(r Route) {
	item := s.api.OpenAPI().Paths[r.Path]
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
// body is bounded and has [bodyTime], which it may change with
// [http.ResponseController]. An error that is returned before anything is written
// is answered as a problem. describe adds parameters, bodies and answers to the
// document.
func (s *Server) raw(r Route, describe func(*huma.Operation, huma.Registry), handle func(w http.ResponseWriter, r *http.Request, c *Caller) error) {
	op := s.operation(r)
	r.Body = op.MaxBodyBytes
	if describe != nil {
		describe(&op, s.api.OpenAPI().Components.Schemas)
	}
	s.api.OpenAPI().AddOperation(&op)
	s.checkParameters(r)
	s.api.Adapter().Handle(&op, s.api.Middlewares().Handler(op.Middlewares.Handler(func(ctx huma.Context) {
		req, w := humago.Unwrap(ctx)
		req = req.WithContext(ctx.Context())
		c := callerOf(ctx.Context())
		req.Body = http.MaxBytesReader(w, req.Body, r.most(c))
		if err := handle(w, req, c); err != nil {
			if size := (*http.MaxBytesError)(nil); r.Input && errors.As(err, &size) {
				err = r.tooLarge(c)
			}
			if a := answerOf(req.Context()); a != nil && a.status != 0 {
				note(req, err) // it is too late to answer
				return
			}
			writeProblem(w, req, err)
		}
	})))
}

// A mux knows its patterns, so that a test finds one that is not in the document.
type mux struct {
	*http.ServeMux
	patterns []string
}

// HandleFunc implements [humago.Mux].
func (m *mux) HandleFunc(pattern string, handle func(http.ResponseWriter, *http.Request)) {
	m.Handle(pattern, http.HandlerFunc(handle))
}

// Handle registers a handler.
func (m *mux) Handle(pattern string, h http.Handler) {
	m.patterns = append(m.patterns, pattern)
	m.ServeMux.Handle(pattern, h)
}

// newAPI is the document, and how bodies are read and written.
func newAPI(m *mux, version string) huma.API {
	c := huma.DefaultConfig("agent-runner", version)
	c.Info.Description = "Tenants bring middlewares as WebAssembly modules, and run agents with them."
	c.DocsPath, c.SchemasPath, c.OpenAPIPath, c.CreateHooks = "", "", "", nil
	c.RejectUnknownQueryParameters = true
	format := huma.Format{Marshal: writeJSON, Unmarshal: readJSON}
	c.Formats = map[string]huma.Format{"application/json": format, "json": format}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"key": {Type: "http", Scheme: "bearer", BearerFormat: "ar_…"}}
	c.Transformers = []huma.Transformer{func(ctx huma.Context, _ string, v any) (any, error) {
		err, ok := v.(error)
		if !ok {
			return v, nil
		}
		p := *problemOf(err)
		r, _ := humago.Unwrap(ctx)
		p.Instance = instance(r)
		note(r, p.cause)
		return &p, nil
	}}
	return humago.New(m, c)
}

var writeJSON = huma.DefaultJSONFormat.Marshal

// maxDepth is how deeply a body of JSON may be nested.
const maxDepth = 64

// readJSON reads what is JSON in every respect: in UTF-8, and not nested for
// its own sake.
func readJSON(b []byte, v any) error {
	if !utf8.Valid(b) {
		return errors.New("the body is not UTF-8")
	}
	if err := shallow(b); err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// shallow refuses JSON that is nested deeper than maxDepth.
func shallow(b []byte) error {
	depth, text := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("the body is nested deeper than %d", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// checkPath refuses addresses that mean one thing here and another elsewhere.
func checkPath(r *http.Request) error {
	for _, part := range []string{r.URL.Path, r.URL.RawQuery} {
		if !utf8.ValidString(part) || strings.ContainsFunc(part, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return &Problem{Type: problemType + codeInvalid, Title: titles[codeInvalid].title, Status: http.StatusBadRequest,
				Detail: "the URL has invalid characters"}
		}
	}
	for name, values := range r.URL.Query() {
		for _, v := range append(values, name) {
			if !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
				return &Problem{Type: problemType + codeInvalid, Title: titles[codeInvalid].title, Status: http.StatusBadRequest,
					Detail: "a query parameter is not UTF-8"}
			}
		}
	}
	return nil
}

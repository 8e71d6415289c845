package httpapi

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/store"
)

// RouterOptions configure a [Router]. All fields but People are required.
type RouterOptions struct {
	Store     store.Store
	Admission *admission.Controller
	Overload  *overload.Manager
	Logger    *slog.Logger
	Now       func() time.Time
	Timeouts  *Timeouts
	// Observe records a response by its route's pattern, which is empty if no route matched.
	Observe func(pattern string, status int, took time.Duration)
	// People authenticates people; nil if the server has no identity provider.
	People People
	// Version is the program's version, for the OpenAPI document.
	Version string
}

// A Router serves the API's routes. It authenticates callers, answers errors with problem
// details and logs requests.
type Router struct {
	store     store.Store
	admission *admission.Controller
	overload  *overload.Manager
	log       *slog.Logger
	now       func() time.Time
	timeouts  *Timeouts
	people    People
	observe   func(pattern string, status int, took time.Duration)

	mux    *mux
	api    huma.API
	tokens tokenRequests
}

// NewRouter returns a router without routes.
func NewRouter(o *RouterOptions) *Router {
	rt := &Router{
		store:     o.Store,
		admission: o.Admission,
		overload:  o.Overload,
		log:       o.Logger,
		now:       o.Now,
		timeouts:  o.Timeouts,
		people:    o.People,
		observe:   o.Observe,
		mux:       &mux{ServeMux: http.NewServeMux()},
	}
	rt.api = newAPI(rt.mux, o.Version)
	return rt
}

// Handle registers a public handler outside of the API, for a pattern of
// [http.ServeMux].
func (rt *Router) Handle(pattern string, h http.Handler) { rt.mux.Handle(pattern, h) }

// Patterns returns the patterns of all handlers.
func (rt *Router) Patterns() []string { return rt.mux.patterns }

// OpenAPI returns the API's description. [Router.Finish] completes it.
func (rt *Router) OpenAPI() *huma.OpenAPI { return rt.api.OpenAPI() }

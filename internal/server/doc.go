// Package server is the platform: tenants bring modules and run agents over
// HTTP. A request goes through these stages:
//
//  1. [Server.ServeHTTP] gives it an id, deadlines, a log record, and a problem
//     (RFC 9457) where nothing else answers: an unknown path, a method that is
//     not there, a panic.
//  2. The route's scope decides who may: [Caller] is what became of the key.
//  3. The key's rate is counted.
//  4. The body is read, up to the route's limit, and checked against its schema.
//  5. The route's handler gets the caller, whose Tenant reaches no row of
//     another tenant.
//
// # How a route is added
//
// One file holds one resource: its service, its routes, the types that they
// take and give. The service is a small struct made in [New]; its routes are
// registered by a method that newServer calls:
//
//	func (u *usage) routes(s *Server) {
//		route(s, Route{ID: "get-usage", Method: "GET", Path: "/v1/usage", Scope: UsageRead,
//			Tag: "usage", Summary: "What the tenant used"}, u.get)
//	}
//
//	func (u *usage) get(ctx context.Context, c *Caller, in *UsageInput) (*usageOutput, error)
//
// Inputs and outputs are huma's (embedded parts of inputs are exported, or huma
// leaves them empty): path, query and header parameters by tags, a
// Body of JSON. What the document cannot say (streams of events, uploads) is
// registered with [Server.raw], whose handler has the response and the request,
// and describes itself in the document:
//
//	s.raw(Route{…}, describe, func(w http.ResponseWriter, r *http.Request, c *Caller) error)
//
// An error that a handler returns becomes a problem: a [*Problem] as it is, errors
// of the store by what they mean, everything else 500 with the reason in the log
// alone. A route without a scope panics when the server is made; one for everybody
// says Public. Tests go over all operations of the document, so a route
// is tested for keys, scopes, bodies and tenants without a word about it; one
// with a path parameter that is not in the test's samples fails it.
//
// What runs need is in agents and modules: agents.load gives a version of an
// agent with its modules pinned, agents.loadModule is what host.FileOptions has
// them from, [store.Tenant.AdmitRun] counts the run against the quotas, and
// blocks.current says what the operator blocks, and when that changes. The
// environment of an agent is its tenant's secrets, never this process's.
//
// What goes on after its request (runs) is told to end by [Server.Draining], and
// waited for if it was begun with [Server.Go].
package server

// Package server implements the platform: tenants upload modules and run agents over HTTP. [New]
// takes a store, a host and options, and returns a handler; [Server.Serve] also runs the
// background tasks. The package itself only connects its parts:
//
//	sse         writes streams of server-sent events
//	admission   shares processors, disk and connections between tenants
//	agentmodel  parses requests of model APIs and writes their responses
//	httpapi     routes, keys and scopes, problem details, cursors, the OpenAPI document
//	cluster     finds out which servers of the database have ended
//	policy      the operator's limits for a tenant
//	signin      signs people in with an OpenID Connect provider
//	tenants     tenants, keys, members, secrets, usage and audit logs
//	blocks      modules that the operator blocks
//	modules     uploads, checks and caches modules
//	agents      checks agent files, builds agents from them and caches the agents
//	quarantine  decides which runs of a crashed server are resumed
//	runs        starts, resumes, follows, cancels and takes over runs
//	replays     replays stored runs with another version or module
//	rollouts    moves aliases to other versions, step by step
//	threads     serves conversations that runs continue
//	routes      serves the gateways of tenants: modules in front of model APIs
//	gateway     serves runs over the model APIs and AG-UI
//	console     the web console
//
// A package imports only those above it in this list.
//
// # The life of a request
//
//  1. [httpapi.Router] gives it an id, deadlines and a log record. Errors become problem
//     details (RFC 9457), and so do unknown paths, wrong methods and, unless the response
//     has begun, panics.
//  2. The scopes of the key or the person's role are compared with the route's. [httpapi.Caller]
//     describes the caller.
//  3. [admission.Controller] counts the request against its tenant's quotas.
//  4. The body is read, up to the route's limit, and checked against its schema.
//  5. The route's handler receives the caller, whose Tenant cannot reach the data of other
//     tenants.
//
// # Adding a route
//
// A resource is a type with a method Routes, which [New] calls. JSON routes are registered with
// [httpapi.Register]. Their inputs and outputs follow huma's conventions: path, query and header
// parameters by struct tags, and a field Body. Embedded parts of inputs must be exported, or huma
// leaves them empty. [httpapi.Router.Raw] registers other routes, such as uploads and streams of
// events, which add their own descriptions to the document.
//
// An error of a handler becomes a problem. A [*httpapi.Problem] is sent unchanged. Errors of the
// store, of admission and of the database have the status for their meaning. An unexpected error
// has status 500, and its text is only in the log. If the handler has begun to write, the
// connection is aborted instead. A route without a scope panics at startup; a public one has the
// scope [httpapi.Public]. TestEveryOperation checks keys, scopes, bodies and the isolation of
// tenants for each operation of the document. A new path parameter needs a sample there.
package server

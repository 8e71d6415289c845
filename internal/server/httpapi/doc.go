// Package httpapi serves the routes of the server's API. A resource registers its routes with a
// [Router], which authenticates callers, asks [admission.Controller] when a request may
// proceed, reads and checks bodies, answers errors as problem details (RFC 9457) and writes the
// OpenAPI document. A handler is only called with a caller whose key has the route's scope. The
// package knows no resource. Of the server it imports only admission, and chat for the format
// of OpenAI's errors.
package httpapi

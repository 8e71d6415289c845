// Package httpapi serves the routes of the server's API. A resource registers its routes with a
// [Router], which authenticates callers, waits for admission by [admission.Controller], reads and
// checks bodies, answers errors as problem details (RFC 9457) and writes the OpenAPI document.
// Except on public routes, it calls a handler only with a caller whose key has the route's scope.
// The package does not depend on resources. Of the server it imports only admission, and agentmodel for
// the format of OpenAI's errors.
package httpapi

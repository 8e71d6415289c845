// Package routes serves the gateways of tenants: routes that put modules in front of model APIs. A
// [Service] stores and checks a tenant's gateway.yaml, builds its routes when requests need them, and
// passes requests through them. Package gateway has the protocols, and what happens to one request.
package routes

// Package routes serves the gateways of tenants: routes that put modules in front of model APIs. A
// [Service] stores and checks a tenant's gateway.yaml, builds its routes when requests need them, and
// passes requests through the routes. Package gateway implements the protocols and handles each
// request.
package routes

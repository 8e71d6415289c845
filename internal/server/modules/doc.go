// Package modules receives, checks, describes and caches the modules that tenants upload.
// An upload is WebAssembly, a script or an Extism manifest; what is stored was compiled and
// described itself. Loaded modules are shared by all tenants that have the same content.
// The package knows nothing of agents.
package modules

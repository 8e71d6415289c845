// Package modules receives, checks, describes and caches the modules that tenants upload.
// An upload is WebAssembly, a script or an Extism manifest. It is stored only after it compiled
// and described itself. Tenants with the same content share the loaded module. The package does
// not depend on agents.
package modules

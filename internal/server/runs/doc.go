// Package runs starts, resumes, follows, cancels and takes over runs. A run belongs to the
// process that executes it and not to the request that started it: its events reach
// followers from memory here, and from the store elsewhere. Tenants never see the operator's
// modules in events, histories or traces. The package knows no protocol but the server's
// own.
package runs

// Package runs starts, resumes, follows, cancels and takes over runs. A run belongs to the
// process that executes it, and not to the request that started it. Followers in this process
// receive its events from memory, and followers elsewhere from the store. Tenants never see the
// operator's modules in events, histories or traces. The package implements no protocol but the
// server's own.
package runs

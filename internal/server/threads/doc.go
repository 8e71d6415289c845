// Package threads serves the threads of tenants: conversations that runs continue. Package runs
// starts the runs.
package threads

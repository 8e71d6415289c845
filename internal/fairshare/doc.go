// Package fairshare divides a server's resources among tenants that do not trust each other.
//
//   - A [Semaphore] bounds how much runs at once. Tenants are served in turn, however much one of
//     them asks for.
//   - A [Budget] bounds the time that a tenant's work takes over seconds: it tells the caller how
//     long to delay a tenant that has used more.
//   - A [RateLimiter] bounds the number of requests a minute.
//
// The types do not know each other. A caller combines them: it acquires a slot, works, charges the
// time to the budget and releases the slot with the delay that the budget returns.
//
// A tenant is any string. State about a tenant is dropped once it says nothing any more, so memory
// is bounded by the tenants that are active. All methods may be called concurrently.
//
// The package imports nothing of this project.
package fairshare

// Package fairshare divides a server's resources among tenants that do not trust each other.
//
//   - A [Semaphore] bounds the number of concurrent operations. Tenants are served in turn,
//     however many slots one of them requests.
//   - A [Budget] bounds a tenant's share of the time that work takes: it returns the delay for a
//     tenant that has used more than its share.
//   - A [RateLimiter] bounds the number of requests of a tenant per minute.
//
// The types are independent. A caller combines them: it acquires a slot, works, charges the
// time to the budget and releases the slot with the delay that the budget returns.
//
// A tenant is any string. A semaphore drops the state of a tenant that neither holds nor waits for slots. Budgets and
// rate limiters drop full buckets once they have 10,000, so that their memory depends on the number of active
// tenants. All methods are safe for concurrent use.
//
// The package imports no other package of this project.
package fairshare

package hook

// A Ring is a part of the chain. The operator's entries are in the rings Outer and Inner, around
// and inside the tenant's. Without an operator, all entries are in the ring Tenant.
type Ring int

// The rings, from outside in.
const (
	Outer Ring = iota
	Tenant
	Inner
	RingCount
)

// String returns the ring's name.
func (r Ring) String() string { return [...]string{"outer", "tenant", "inner"}[r] }

package hook

// A Ring is a part of the chain. The operator's entries are in the outer and inner ring, around and
// inside those of the tenant. Without entries of an operator, all entries are in the ring Tenant.
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

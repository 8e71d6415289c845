package invoke

import (
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// chargeCall charges the guest for a host call of the class.
func (inv *Invocation) chargeCall(g *sandbox.Guest, class policy.FuelClass) {
	switch class {
	case policy.FuelValue:
		g.ChargeFuel(policy.ScheduleOf(inv.Limits).Value)
	case policy.FuelRecord:
		g.ChargeFuel(policy.ScheduleOf(inv.Limits).Record)
	}
}

// ChargeBytes charges the guest for n bytes that the guest passes to the host. It must be called
// before the host stores the bytes, so that nothing is stored for a guest without fuel.
func (inv *Invocation) ChargeBytes(g *sandbox.Guest, n int) {
	g.ChargeFuel(int64(n) * policy.ScheduleOf(inv.Limits).Byte)
}

// chargeReply charges the guest for a reply of n bytes, if the fuel schedule has a cost for
// replies.
func (inv *Invocation) chargeReply(g *sandbox.Guest, n int) {
	if policy.ScheduleOf(inv.Limits).Reply {
		g.Charge(n)
	}
}

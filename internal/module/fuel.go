package module

import "github.com/agent-runner/agent-runner/internal/sandbox"

// FuelSchedule is the version of the newest fuel schedule, which new runs use.
const FuelSchedule = 2

// A fuelSchedule holds what host calls cost in fuel, in addition to the fuel for calling an import and
// for the bytes that it copies (see sandbox.Limits.Fuel). A version never changes: recorded calls
// replay under the version that they were recorded with.
type fuelSchedule struct {
	record int64 // for a call that adds a record to the journal, and for a printed line
	value  int64 // for a call that changes a run-local value
	byte   int64 // for a byte that the module hands to the host
	reply  bool  // the bytes of a reply cost as much as bytes that an import copies
}

// fuelSchedules are all versions; abi/README.md has them in a table. Those of version 2 are what the
// processor time for persisting a byte and a record buys in guest code.
var fuelSchedules = [FuelSchedule + 1]fuelSchedule{
	1: {},
	2: {record: 48_000, value: 2_000, byte: 64, reply: true},
}

// A fuelClass says which constant a host call costs.
type fuelClass uint8

const (
	fuelPlain  fuelClass = iota
	fuelValue            // fuelSchedule.value
	fuelRecord           // fuelSchedule.record
)

// fuel returns the schedule that the visit's module runs under.
func (v *visit) fuel() *fuelSchedule { return &fuelSchedules[v.limits.FuelSchedule] }

// chargeCall charges for a host call of that class.
func (v *visit) chargeCall(g *sandbox.Guest, class fuelClass) {
	switch class {
	case fuelValue:
		g.ChargeFuel(v.fuel().value)
	case fuelRecord:
		g.ChargeFuel(v.fuel().record)
	}
}

// chargeBytes charges for n bytes that the guest hands to the host. It is called before the host
// keeps them, so that a guest without fuel leaves nothing.
func (v *visit) chargeBytes(g *sandbox.Guest, n int) { g.ChargeFuel(int64(n) * v.fuel().byte) }

// chargeReply charges for a reply of n bytes.
func (v *visit) chargeReply(g *sandbox.Guest, n int) {
	if v.fuel().reply {
		g.Charge(n)
	}
}

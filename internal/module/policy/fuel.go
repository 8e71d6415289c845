package policy

// FuelSchedule is the version of the newest fuel schedule, which new runs use.
const FuelSchedule = 2

// A Schedule holds what host calls cost in fuel, in addition to the fuel for calling an import and
// for the bytes that it copies (see sandbox.Limits.Fuel). A version never changes: recorded calls
// replay under the version that they were recorded with.
type Schedule struct {
	Record int64 // for a call that adds a record to the journal, and for a printed line
	Value  int64 // for a call that changes a run-local value
	Byte   int64 // for a byte that the module hands to the host
	Reply  bool  // the bytes of a reply cost as much as bytes that an import copies
}

// fuelSchedules are all versions; abi/README.md has them in a table. Those of version 2 are what the
// processor time for persisting a byte and a record buys in guest code.
var fuelSchedules = [FuelSchedule + 1]Schedule{
	1: {},
	2: {Record: 48_000, Value: 2_000, Byte: 64, Reply: true},
}

// A FuelClass says which constant a host call costs.
type FuelClass uint8

const (
	fuelPlain  FuelClass = iota
	FuelValue            // fuelSchedule.value
	FuelRecord           // fuelSchedule.record
)

// Schedule returns the fuel schedule of a module under these limits.
func (l *Limits) Schedule() *Schedule { return &fuelSchedules[l.FuelSchedule] }

package policy

// FuelSchedule is the newest version of the fuel schedule. New runs use it.
const FuelSchedule = 2

// A Schedule prices host calls in fuel. The prices add to those of calling an import and of the
// bytes that it copies (see sandbox.Limits.Fuel). A version never changes, because recorded calls
// replay under the version that they were recorded with.
type Schedule struct {
	Record int64 // price of a call that adds a record to the journal, and of a printed line
	Value  int64 // price of a call that changes a run-local value
	Byte   int64 // price of each byte that the module passes to the host
	Reply  bool  // whether a byte of a reply costs as much as a byte that an import copies
}

// fuelSchedules holds every version; abi/README.md documents them. Version 2 charges for a byte or
// record as much fuel as guest code uses in the processor time that persisting it takes.
var fuelSchedules = [FuelSchedule + 1]Schedule{
	1: {},
	2: {Record: 48_000, Value: 2_000, Byte: 64, Reply: true},
}

// A FuelClass selects the price of a host call.
type FuelClass uint8

// The classes of host calls. Calls of class fuelPlain have no price of their own.
const (
	fuelPlain  FuelClass = iota
	FuelValue            // Schedule.Value
	FuelRecord           // Schedule.Record
)

// ScheduleOf returns the fuel schedule that l selects.
func ScheduleOf(l *Limits) *Schedule { return &fuelSchedules[l.FuelSchedule] }

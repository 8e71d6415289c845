package policy

// FuelSchedule is the newest version of the fuel schedule, which new runs use.
const FuelSchedule = 2

// A Schedule is the fuel costs of host calls. They are added to the costs of calling an import and
// of the bytes that the import copies (see sandbox.Limits.Fuel). A version must never change,
// because recorded calls are replayed under the version of their recording.
type Schedule struct {
	Record int64 // cost of a call that adds a record to the journal, and of a printed line
	Value  int64 // cost of a call that changes a run-local value
	Byte   int64 // cost of each byte that the module passes to the host
	Reply  bool  // whether a byte of a reply costs as much as a byte that an import copies
}

// fuelSchedules contains all versions, which abi/README.md documents. In version 2, persisting a
// byte or record costs the amount of fuel that guest code uses in the same processor time.
var fuelSchedules = [FuelSchedule + 1]Schedule{
	1: {},
	2: {Record: 48_000, Value: 2_000, Byte: 64, Reply: true},
}

// A FuelClass selects the cost of a host call.
type FuelClass uint8

// The classes of host calls. Calls of class fuelPlain have no cost in the schedule.
const (
	fuelPlain  FuelClass = iota
	FuelValue            // Schedule.Value
	FuelRecord           // Schedule.Record
)

// ScheduleOf returns the fuel schedule of the version in l.
func ScheduleOf(l *Limits) *Schedule { return &fuelSchedules[l.FuelSchedule] }

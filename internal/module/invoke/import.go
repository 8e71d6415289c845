package invoke

import (
	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// An Import is a function that modules may import.
type Import struct {
	sandbox.Import

	Does  string           // describes what a module can do with the import
	Grant string           // the grant that it requires; empty if none
	Fuel  policy.FuelClass // the class that determines its cost
}

// ValueTypes converts letters to types: i is an i32, I an i64.
func ValueTypes(letters string) []api.ValueType {
	types := make([]api.ValueType, len(letters))
	for i := range letters {
		types[i] = api.ValueTypeI32
		if letters[i] == 'I' {
			types[i] = api.ValueTypeI64
		}
	}
	return types
}

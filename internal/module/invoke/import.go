package invoke

import (
	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// An Import is a function that modules may import.
type Import struct {
	sandbox.Import

	Does  string           // what a module can do with the import
	Grant string           // the grant that the import requires; empty if it requires none
	Fuel  policy.FuelClass // the class that determines the import's cost
}

// ValueTypes returns the type of each letter: i means i32, I means i64.
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

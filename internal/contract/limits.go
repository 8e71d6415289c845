package contract

// Limits of the ABI itself. The host configures how much memory, time and how many host
// calls each module may use.
const (
	// MaxKey is the maximum length of a run-local key, in bytes.
	MaxKey = 256
	// MaxName is the maximum length of the name of a module, tool or event, in bytes.
	MaxName = 128
	// MaxNested is the maximum nesting depth of calls that modules make through the imports "model"
	// and "tool".
	MaxNested = 4
	// MaxAgain is the maximum number of times that after_model or after_tool may repeat
	// one call.
	MaxAgain = 3
)

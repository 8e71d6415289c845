package abi

// Limits of the ABI itself. What a module may use of memory, time and host
// calls is the host's business and lies beside the module.
const (
	// MaxDepth is how deeply JSON may be nested at the border.
	MaxDepth = 64
	// MaxNumber is the length of a number literal, in bytes.
	MaxNumber = 64
	// MaxElements is how many elements an array may have where the ABI says
	// what they are.
	MaxElements = 100_000
	// MaxKey is the length of a run-local key, in bytes.
	MaxKey = 256
	// MaxName is the length of the name of a module, tool or event, in bytes.
	MaxName = 128
	// MaxNested is how deeply calls that modules make through the imports model
	// and tool may lie within one another.
	MaxNested = 4
	// MaxAgain is how often after_model or after_tool may ask for one call once more.
	MaxAgain = 3
)

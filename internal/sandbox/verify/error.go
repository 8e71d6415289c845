package verify

// RefusedError reports why a module was not loaded.
type RefusedError struct {
	Name   string // the name under which the module was loaded, often its file
	Reason string // the mistake in the module
	Fix    string // instruction for the module's author; may be empty
	Err    error  // the underlying error, such as a *wasm.Error; may be nil
}

// Unwrap returns the underlying error.
func (e *RefusedError) Unwrap() error { return e.Err }

func (e *RefusedError) Error() string {
	text := e.Reason
	if e.Name != "" {
		text = e.Name + ": " + text
	}
	if e.Fix != "" {
		text += "; " + e.Fix
	}
	return text
}

// Invalid returns a [*RefusedError] for a mistake that wazero found in a module. The sandbox leaves
// only the check of operand types to wazero.
func Invalid(err error) error {
	return &RefusedError{
		Reason: "is not valid: " + err.Error(),
		Fix:    "build it again; the toolchain made a mistake",
		Err:    err,
	}
}

package abisource

// A Root is a type for which generators write code in addition to the inputs and answers of hooks.
type Root struct {
	Name    string
	Read    bool // modules decode it
	Written bool // modules encode it
	Scripts bool // scripts see it
	GoOnly  bool // the other SDKs encode it within other types only
}

// roots has the arguments and replies of imports, the values that module authors store, and the
// host's records, in the order of the SDKs' declarations.
var roots = [...]Root{
	{Name: "Error", Read: true, Written: true},
	{Name: "RequestPatch", Written: true, Scripts: true},
	{Name: "ModelReply", Read: true},
	{Name: "CallPatch", Written: true, Scripts: true},
	{Name: "ToolReply", Read: true},
	{Name: "ToolRequest", Written: true},
	{Name: "HTTPRequest", Written: true, Scripts: true},
	{Name: "HTTPResponse", Read: true, Scripts: true},
	{Name: "Sent", Written: true},
	{Name: "Received", Read: true},
	{Name: "LocalValue", Read: true},
	{Name: "LocalVersion", Read: true},
	{Name: "Custom", Written: true},
	{Name: "Event", Scripts: true},
	{Name: "Approval"},
	{Name: "Message", Read: true, Written: true},
	{Name: "Response", Read: true, Written: true},
	{Name: "Result", Read: true, Written: true},
	{Name: "Splice"},
	{Name: "Control", Written: true, GoOnly: true},
}

// Roots returns the types for which generators write code in addition to the inputs and answers of
// hooks.
func Roots() []Root { return append([]Root{}, roots[:]...) }

package middleware

// A Host is what a module can ask for while one of its hooks runs: the
// imports of the ABI. The errors are of type *abi.Error. A reply belongs to
// the caller until it calls the host again.
//
// Authors do not use it: [Context], [Messages] and [Local] do. It is exported
// for those who bring modules to another transport, or to a test.
type Host interface {
	// Next runs what a wrap hook wraps, with a patch of the request or none.
	Next(patch []byte) ([]byte, error)
	// NextStream is Next without its reply, which Recv reads as it comes: an
	// abi.Received, or nothing when there is no more.
	NextStream(patch []byte) error
	Recv() ([]byte, error)
	// Send hands an abi.Sent outward.
	Send(chunks []byte) error
	// Messages returns a JSON array of the messages of a list, from up to, not
	// including, to.
	Messages(list, from, to int) ([]byte, error)
	// Changed returns the first index at which a list differs from a revision.
	Changed(list int, revision int64) (int, error)
	// LocalGet returns an abi.LocalValue, or nothing for a key that is not there.
	LocalGet(key string) ([]byte, error)
	LocalDelete(key string) error
	// LocalSet returns an abi.LocalVersion, or nothing, since nobody asks for it. The
	// value is the caller's again when it returns.
	LocalSet(key string, value []byte, version int64) ([]byte, error)
	// LocalAdd returns the new value of a counter.
	LocalAdd(key string, delta int64) ([]byte, error)
	// StoreGet, StoreDelete, StoreSet and StoreAdd are the same for durable
	// values; ttl is their time to live in seconds, 0 for ever.
	StoreGet(key string) ([]byte, error)
	StoreDelete(key string) error
	StoreSet(key string, value []byte, version, ttl int64) ([]byte, error)
	StoreAdd(key string, delta int64) ([]byte, error)
	// Model makes a model call of the module's own: an abi.RequestPatch, answered
	// by an abi.ModelReply.
	Model(request []byte) ([]byte, error)
	// Tool calls a tool of the agent: an abi.ToolRequest, answered by an
	// abi.ToolReply.
	Tool(request []byte) ([]byte, error)
	// HTTP sends an abi.HTTPRequest, answered by an abi.HTTPResponse.
	HTTP(request []byte) ([]byte, error)
	// Emit sends an abi.Custom.
	Emit(event []byte) error
	Log(level int, text string)
}

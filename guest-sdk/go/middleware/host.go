package middleware

// A Host provides the imports of the ABI to a module while one of its hooks runs. Its
// errors are of type *abi.Error. A reply is valid until the next call of the host.
//
// Authors use [Context], [Messages] and [Local] instead. Host is exported for other
// transports and for tests.
type Host interface {
	// Next continues the wrapped call with a patch of the request, or unchanged if patch
	// is nil.
	Next(patch []byte) ([]byte, error)
	// NextStream is Next without a reply. Recv then returns the reply while it streams:
	// a contract.Received, or nothing after the end.
	NextStream(patch []byte) error
	Recv() ([]byte, error)
	// Send sends a contract.Sent to the caller of the wrapped call.
	Send(chunks []byte) error
	// Messages returns a JSON array with the messages [from, to) of a list.
	Messages(list, from, to int) ([]byte, error)
	// Changed returns the index of the first message that changed since a revision of a
	// list.
	Changed(list int, revision int64) (int, error)
	// LocalGet returns {"value", "version"}, or nothing if the key does not exist.
	LocalGet(key string) ([]byte, error)
	LocalDelete(key string) error
	// LocalSet returns {"version"}, or nothing if the caller does not need it. It keeps no
	// reference to value.
	LocalSet(key string, value []byte, version int64) ([]byte, error)
	// LocalAdd adds delta to a counter and returns its new value.
	LocalAdd(key string, delta int64) ([]byte, error)
	// StoreGet, StoreDelete, StoreSet and StoreAdd are like LocalGet, LocalDelete, LocalSet and
	// LocalAdd, but for durable values. ttl is the time to live in seconds; 0 means no expiry.
	StoreGet(key string) ([]byte, error)
	StoreDelete(key string) error
	StoreSet(key string, value []byte, version, ttl int64) ([]byte, error)
	StoreAdd(key string, delta int64) ([]byte, error)
	// Model makes a model call for the module. It takes an abi.RequestPatch and returns
	// a contract.ModelReply.
	Model(request []byte) ([]byte, error)
	// Tool calls a tool of the agent. It takes a contract.ToolRequest and returns a
	// contract.ToolReply.
	Tool(request []byte) ([]byte, error)
	// HTTP sends an [abi.HTTPRequest] and returns an [abi.HTTPResponse].
	HTTP(request []byte) ([]byte, error)
	// Emit emits a contract.Custom.
	Emit(event []byte) error
	Log(level int, text string)
}
